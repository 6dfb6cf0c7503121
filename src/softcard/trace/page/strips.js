"use strict";
// Strips under the timeline, along its axis: events, activities at once, counters, and the addresses that events name.

const STRIP = 34, MOST_OPEN = 6, MOST_REGIONS = 10;

class Strips {
  constructor(trace, timeline, tip) {
    Object.assign(this, { trace, timeline, tip, home: document.getElementById("strips") });
    this.strips = [];
    if (!trace.size) { this.home.hidden = true; return; }
    this.add("events", "in each column", (columns) => this.events(columns), grouped, "other");
    for (const [lane, most] of this.severalAtOnce()) this.add(`at once: ${lane}`, `up to ${most}`, (columns) => this.open(lane, columns), grouped, "waves");
    for (const { name, array } of trace.counters) {
      const [order, time, value] = ["order", "time", "value"].map((part) => trace.arrays[`${array} ${part}`]);
      const shown = name.startsWith("bytes") ? bytes : grouped, most = value.reduce((one, other) => Math.max(one, other), 0);
      this.add(name, `up to ${shown(most)}`, (columns) => this.counter(order, time, value, columns), shown, name.startsWith("open") ? "commands" : "transfers");
    }
    this.addMemory();
    const about = ["activity", ...(trace.counters.length ? ["queues and traffic"] : []), ...(this.regions.size ? ["memory"] : [])];
    this.home.querySelector("summary").textContent = `${about[0][0].toUpperCase()}${about.join(", ").slice(1)}`;
    this.home.addEventListener("toggle", () => this.draw());
    this.home.open = !trace.findings.length;
  }

  add(name, most, values, shown, colour) {
    const canvas = element("canvas", { role: "img", "aria-label": name });
    const strip = { name, canvas, values, shown, colour };
    canvas.addEventListener("pointermove", (event) => this.point(event, strip));
    canvas.addEventListener("pointerleave", () => this.tip(null));
    this.strips.push(strip);
    this.home.append(element("div", { class: "strip" }, element("span", {}, name, element("small", {}, most)), canvas));
  }

  severalAtOnce() {
    const depths = new Map();
    for (const { lane, depth } of this.trace.tracks) depths.set(lane, depth);
    return [...depths].filter(([, depth]) => depth > 1).slice(0, MOST_OPEN);
  }

  column(columns, index) { return this.timeline.from + (index + 0.5) * (this.timeline.to - this.timeline.from) / columns; }

  events(columns) {
    const { trace, timeline } = this, step = (timeline.to - timeline.from) / columns, { starts } = timeline;
    const found = new Array(columns).fill(0);
    for (const { from, to } of trace.tracks) {
      let event = lower(starts, from, to, timeline.from);
      for (let column = 0; column < columns; column++) {
        const next = lower(starts, event, to, timeline.from + (column + 1) * step);
        found[column] += next - event;
        event = next;
      }
    }
    return found;
  }

  open(lane, columns) {
    const { trace, timeline: { starts, ends } } = this;
    const tracks = trace.tracks.filter((track) => track.lane === lane && track.depth);
    const isOpen = ({ from, to }, position) => { const event = lower(ends, from, to, position); return event < to && starts[event] <= position; };
    return Array.from({ length: columns }, (_, index) => tracks.filter((track) => isOpen(track, this.column(columns, index))).length);
  }

  // The highest value within each column, so that no peak is missed; null before the first change.
  counter(order, time, value, columns) {
    const { timeline } = this, positions = timeline.positions(time, order), step = (timeline.to - timeline.from) / columns;
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

  addMemory() {
    const { trace } = this, busy = new Map();
    for (const region of trace.arrays.memoryRegion) busy.set(region, (busy.get(region) ?? 0) + 1);
    const shown = [...busy.keys()].sort((one, other) => busy.get(other) - busy.get(one)).slice(0, MOST_REGIONS).sort((one, other) => one - other);
    this.regions = new Map();
    for (const region of shown) {
      const [base, size] = trace.regions[region];
      const canvas = element("canvas", { role: "img", "aria-label": `Accesses to ${base}` });
      this.regions.set(region, canvas);
      this.home.append(element("div", { class: "strip" }, element("span", {}, element("code", {}, base), element("small", {}, `memory, ${bytes(size)}`)), canvas));
    }
    const rest = busy.size - shown.length;
    if (rest > 0) this.home.append(element("p", { class: "soft" }, `The ${shown.length} busiest of ${busy.size} ranges of memory are shown.`));
  }

  draw() {
    if (!this.home.open) return;
    const { timeline } = this, ratio = window.devicePixelRatio || 1;
    for (const strip of this.strips) {
      const { canvas, colour } = strip, width = timeline.span(), columns = Math.max(20, Math.floor(width / 3));
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(STRIP * ratio);
      const pen = canvas.getContext("2d"), values = (strip.drawn = strip.values(columns)), most = Math.max(1, ...values);
      pen.scale(ratio, ratio);
      pen.fillStyle = PALETTE[colour];
      values.forEach((value, index) => {
        if (!value) return;
        const height = Math.max(1.5, value / most * (STRIP - 4));
        const x = Math.round(index * width / columns);
        pen.fillRect(x, STRIP - height, Math.round((index + 1) * width / columns) - x, height);
      });
    }
    this.drawMemory();
  }

  drawMemory() {
    const { trace, timeline } = this, paint = new Map(), whats = ["other", "read", "written"].map((name) => rgb(PALETTE[name]));
    for (const [region, canvas] of this.regions) {
      canvas.width = Math.max(canvas.clientWidth, 1);
      canvas.height = trace.regions[region][1] > 256 ? STRIP : 16;
      canvas.style.height = `${canvas.height}px`;
      paint.set(region, canvas.getContext("2d").createImageData(canvas.width, canvas.height));
    }
    const { memoryOrder, memoryTime, memoryRegion, memoryOffset, memorySize, memoryWhat } = trace.arrays;
    const positions = timeline.positions(memoryTime, memoryOrder), count = positions.length;
    const last = lower(positions, 0, count, timeline.to);
    for (let index = lower(positions, 0, count, timeline.from); index < last; index++) {
      const image = paint.get(memoryRegion[index]);
      if (!image) continue;
      const x = Math.floor((positions[index] - timeline.from) / (timeline.to - timeline.from) * image.width);
      const size = trace.regions[memoryRegion[index]][1], [red, green, blue] = whats[memoryWhat[index]];
      const top = Math.min(Math.floor(memoryOffset[index] / size * image.height), image.height - 4);
      const bottom = Math.max(top + 4, Math.min(Math.ceil((memoryOffset[index] + memorySize[index]) / size * image.height), image.height));
      for (let y = top; y < bottom; y++) {
        for (let right = 0; right < 3 && x + right < image.width; right++) {
          const at = 4 * (y * image.width + x + right);
          image.data[at] = red; image.data[at + 1] = green; image.data[at + 2] = blue; image.data[at + 3] = 255;
        }
      }
    }
    for (const [region, canvas] of this.regions) canvas.getContext("2d").putImageData(paint.get(region), 0, 0);
  }

  point(event, { name, drawn, shown, canvas }) {
    if (!drawn) return;
    const box = canvas.getBoundingClientRect(), index = Math.floor((event.clientX - box.left) / box.width * drawn.length);
    const value = drawn[index];
    this.tip(event, value === undefined || value === null ? "" : `${name}: ${shown(value)} at ${this.timeline.unit()} ${grouped(Math.max(0, Math.round(this.column(drawn.length, index))))}`);
  }
}

function rgb(hex) { return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)); }
