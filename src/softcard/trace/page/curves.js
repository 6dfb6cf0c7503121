"use strict";
// Counters under the timeline: what is submitted or begun and not done, and how much was moved, as curves along the same axis.

class Curves {
  constructor(trace, timeline) {
    this.timeline = timeline;
    this.home = document.getElementById("curves");
    const named = trace.counters.map(({ name, array, level }) => {
      const [order, time, value] = ["order", "time", "value"].map((part) => trace.arrays[`${array} ${part}`]);
      return { name, level, order, time, value };
    });
    this.groups = [["open", named.filter((each) => each.level)], ["moved", named.filter((each) => !each.level)]]
      .filter(([, counters]) => counters.length)
      .map(([title, counters]) => ({ title, counters, plot: null, home: element("div", { class: "curves" }) }));
    if (this.groups.length) this.home.replaceChildren(heading("Queues and traffic"), ...this.groups.map(({ home }) => home));
  }

  // The highest value within each column of pixels, so that no peak is missed; null before the first change.
  values({ order, time, value }, columns, step) {
    const { timeline } = this, positions = timeline.axis === "steps" ? time : order;
    const found = new Array(columns).fill(null);
    let next = lower(positions, 0, positions.length, timeline.from);
    for (let column = 0; column < columns; column++) {
      const last = lower(positions, next, positions.length, timeline.from + (column + 1) * step);
      let most = next > 0 ? value[next - 1] : null;
      for (let index = Math.max(next, last - 4096); index < last; index++) most = Math.max(most ?? 0, value[index]);
      found[column] = most;
      next = last;
    }
    return found;
  }

  draw() {
    const { timeline } = this, columns = Math.max(40, Math.floor(timeline.span() / 2));
    const step = (timeline.to - timeline.from) / columns;
    const at = Array.from({ length: columns }, (_, index) => timeline.from + (index + 0.5) * step);
    for (const group of this.groups) {
      const values = [at, ...group.counters.map((counter) => this.values(counter, columns, step))];
      if (group.plot && group.theme === isDark() && group.width === timeline.width) { group.plot.setData(values); continue; }
      group.plot?.destroy();
      group.theme = isDark();
      group.width = timeline.width;
      group.plot = this.plot(group, values);
    }
  }

  plot({ counters, home }, values) {
    const { timeline } = this, shades = colours(), isBytes = counters.every(({ name }) => name.startsWith("bytes"));
    const axis = { stroke: shades.soft, grid: { stroke: shades.line, width: 1 }, ticks: { show: false } };
    const shown = isBytes ? bytes : grouped;
    const incrs = isBytes ? Array.from({ length: 50 }, (_, power) => 2 ** power)
      : Array.from({ length: 15 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
    return new uPlot({
      width: timeline.width, height: 84, padding: [8, 0, 6, 0], legend: { live: true }, cursor: { y: false, drag: { x: false } },
      scales: { x: { time: false, range: () => [timeline.from, timeline.to] }, y: { range: (_, low, high) => [0, Math.max(high, 1) * 1.1] } },
      axes: [{ ...axis, show: false }, { ...axis, size: LABELS, space: 26, incrs, values: (_, at) => at.map(shown) }],
      series: [{ label: timeline.axis === "steps" ? "step" : "event", value: (_, x) => (x === null ? "" : grouped(Math.round(x))) },
        ...counters.map(({ name }, index) => ({ label: name, stroke: shades.kinds[index % shades.kinds.length], width: 1.5, points: { show: false },
          value: (_, y) => (y === null ? "" : (name.startsWith("bytes") ? bytes : grouped)(y)), paths: uPlot.paths.stepped({ align: 1 }) }))],
    }, values, home);
  }
}
