"use strict";
// What stands below and beside the timeline; all text goes in as text, never as markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== "") made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function heading(text, small = "") { return element("h2", {}, text, small ? element("small", {}, small) : null); }

// A table that is scrolled where it is long; `rows` are cells, `numbers` the columns that hold numbers, `choose` what a row does.
function table(heads, rows, { numbers = [], codes = [], choose = null } = {}) {
  const kind = (column) => (numbers.includes(column) ? "number" : codes.includes(column) ? "code" : "");
  const body = rows.map((row, index) => {
    const cells = row.map((cell, column) => element("td", { class: kind(column) }, cell));
    const go = () => choose(index);
    return choose
      ? element("tr", { tabindex: "0", onclick: go, onkeydown: (event) => event.key === "Enter" && go() }, ...cells)
      : element("tr", {}, ...cells);
  });
  const head = element("tr", {}, ...heads.map((each, column) => element("th", { class: kind(column) }, each)));
  return element("div", { class: "scroll", tabindex: "-1" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function showFindings(trace, choose) {
  const rules = new Map(trace.rules.map((rule) => [rule[0], rule]));
  const home = document.getElementById("findings");
  if (!trace.findings.length) {
    home.replaceChildren(heading("Findings"), element("p", { class: "soft" }, "No error, fault or lint in this trace."));
    return;
  }
  const rows = trace.findings.map(([event, what, message, rule, clause, diagnostic]) => {
    const [, told, text, fidelity, , link] = rules.get(rule) ?? ["", clause, "", "", 0, ""];
    const name = link ? element("a", { href: link }, rule) : element("code", {}, rule);
    const page = trace.checkLinks?.[what];
    const said = rule ? element("div", {}, name, " ", told ? element("span", { class: "clause" }, told) : "") : "";
    return [
      element("span", { class: "bad" }, page ? element("a", { href: page }, what) : what),
      diagnostic ? element("pre", { class: "diagnostic" }, diagnostic) : message,
      element("div", {}, said, text ? element("div", { class: "soft" }, text) : ""),
      fidelity ? element("span", { class: "fidelity" }, fidelity) : "",
      trace.first[event] === trace.last[event] ? grouped(trace.first[event]) : `${grouped(trace.first[event])} – ${grouped(trace.last[event])}`,
    ];
  });
  const more = trace.findingCount > rows.length ? `the first ${rows.length} of ${grouped(trace.findingCount)}` : String(rows.length);
  home.replaceChildren(heading("Findings", more), table(["what", "message", "clause", "modelled", "event"], rows,
    { numbers: [4], choose: (index) => choose(trace.findings[index][0]) }));
}

// The clause that a finding names, or that its rule stands under.
function clauseOf(trace, [, , , rule, clause]) { return clause || (trace.rules.find(([name]) => name === rule)?.[1] ?? ""); }

function showDetail(trace, event) {
  const home = document.getElementById("detail");
  if (event < 0) {
    home.replaceChildren(heading("Nothing chosen"), element("p", { class: "soft" },
      "Click an event, or press n for the first, f for the first finding. Zoom with Ctrl and the wheel or + and −, drag to move; ? shows all keys."));
    return;
  }
  const span = !trace.isMoment(event), steps = trace.end[event] - trace.begin[event];
  const facts = [
    ["kind", trace.kind(event)], ["lane", trace.track(event).lane],
    ["event", span ? `${grouped(trace.first[event])} – ${grouped(trace.last[event])}` : grouped(trace.first[event])],
    ["step", grouped(trace.begin[event])], ...(span ? [["lasts", `${grouped(steps)} steps`]] : []),
  ];
  const list = (pairs) => element("dl", {}, ...pairs.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, text)]));
  const finding = trace.findings.find(([of]) => of === event);
  home.replaceChildren(heading(trace.name(event)), finding?.[5] ? element("pre", { class: "diagnostic" }, finding[5]) : "",
    list(facts), element("hr"), list(trace.fields(event)),
    finding?.[3] ? element("p", { class: "bad" }, [finding[3], clauseOf(trace, finding)].filter(Boolean).join(": ")) : "");
}

function tipText(trace, event) {
  const fields = trace.fields(event).slice(0, 8).map(([name, text]) => `${name} ${text.slice(0, 80)}`).join(" · ");
  const lasts = trace.isMoment(event) ? "" : `, ${grouped(trace.end[event] - trace.begin[event])} steps`;
  const finding = trace.findings.find(([of]) => of === event);
  const clause = finding?.[3] ? ` [${[finding[3], clauseOf(trace, finding)].filter(Boolean).join(": ")}]` : "";
  return [element("b", {}, trace.name(event)), ` at step ${grouped(trace.begin[event])}${lasts}`, element("br"),
    fields, finding ? element("div", { class: "bad" }, finding[2] + clause) : ""];
}

// What registers and signals held after the event with number `order`: the last value that was read or written.
class Registers {
  constructor(trace) {
    this.trace = trace;
    this.kinds = ["register-access", "signal-changed"].map((kind) => trace.kinds.indexOf(kind));
    this.any = this.kinds.some((kind) => kind >= 0);
  }

  // Each event with the number of what it touches; made once, when it is first asked for.
  touched() {
    if (this.events) return this.events;
    const { trace, kinds } = this, numbers = new Map(), events = [], whats = [];
    for (const { lane, from, to } of trace.tracks) {
      for (let event = from; event < to; event++) {
        if (!kinds.includes(trace.arrays.kind[event])) continue;
        const name = this.name(lane, event);
        if (!numbers.has(name)) numbers.set(name, numbers.size);
        events.push(event);
        whats.push(numbers.get(name));
      }
    }
    this.names = [...numbers.keys()];
    this.whats = Uint32Array.from(whats);
    return (this.events = Uint32Array.from(events));
  }

  field(event, name) {
    const column = this.trace.tables[this.trace.arrays.kind[event]].find((each) => each.name === name);
    return column ? this.trace.cell(column, this.trace.arrays.row[event]) : "";
  }

  name(lane, event) {
    if (this.trace.kind(event) === "signal-changed") return `signal 0x${Number(this.field(event, "signal")).toString(16)}`;
    const own = this.field(event, "name") || `${this.field(event, "file")}[${this.field(event, "index")}]`;
    return /^registers( of the CMP)?$/.test(lane) ? own : `${lane.replace(/^registers of /, "")} ${own}`;
  }

  at(order) {
    const events = this.touched(), { first } = this.trace, last = new Map();
    events.forEach((event, index) => {
      if (first[event] > order) return;
      const before = last.get(this.whats[index]);
      if (before === undefined || first[before] < first[event]) last.set(this.whats[index], event);
    });
    return [...last].map(([what, event]) => [this.names[what], event])
      .sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  }

  show(order, choose) {
    const home = document.getElementById("registers");
    if (!this.any) return;
    const held = this.at(order), said = { yes: "written", no: "read" };
    home.replaceChildren(heading("Registers and signals", `after event ${grouped(order)}`), held.length
      ? table(["name", "value", "last", "event"], held.map(([name, event]) =>
          [name, this.field(event, "value"), said[this.field(event, "write")] ?? "changed", grouped(this.trace.first[event])]),
        { numbers: [3], codes: [0, 1], choose: (index) => choose(held[index][1]) })
      : element("p", { class: "soft" }, "None has been touched yet."));
  }
}

function showOperations(trace) {
  if (trace.operations.length) {
    document.getElementById("operations").replaceChildren(heading("Operations reached", String(trace.operations.length)), table(["operation", "begun as", "times"],
      trace.operations.map(([kind, name, count]) => [name, kind, grouped(count)]), { numbers: [2], codes: [0] }));
  }
  if (trace.rules.length) {
    document.getElementById("rules").replaceChildren(heading("Rules reached", String(trace.rules.length)), table(["rule", "clause", "modelled", "times"],
      trace.rules.map(([name, clause, , fidelity, count, link]) => [link ? element("a", { href: link }, name) : name, clause,
        fidelity ? element("span", { class: "fidelity" }, fidelity) : "", grouped(count)]), { numbers: [3] }));
  }
}

function showPlaces(trace) {
  if (!trace.places.length) return;
  const most = trace.places[0][3];
  document.getElementById("places").replaceChildren(heading("Executed, by place", trace.placeCount > trace.places.length ? `the ${trace.places.length} most frequent of ${grouped(trace.placeCount)}` : String(trace.placeCount)),
    table(["lane", "place", "what", "times"], trace.places.map(([lane, place, what, count]) => [lane, place, what,
      element("span", { title: `${Math.round(100 * count / most)} % of the most frequent` }, grouped(count))]), { numbers: [3], codes: [1, 2] }));
}

// Which addresses were named when: a strip per range, drawn pixel by pixel, under the same axis as the timeline.
class Memory {
  constructor(trace, timeline) {
    this.trace = trace;
    this.timeline = timeline;
    const busy = new Map();
    for (const region of trace.arrays.memoryRegion) busy.set(region, (busy.get(region) ?? 0) + 1);
    this.shown = [...busy.keys()].sort((one, other) => busy.get(other) - busy.get(one)).slice(0, 10).sort((one, other) => one - other);
    this.strips = new Map();
    if (!this.shown.length) return;
    const key = element("small", { class: "key" }, ...["named", "read", "written"].flatMap((name, what) => [element("i", { "data-what": what }), name]));
    const rest = busy.size - this.shown.length;
    const home = document.getElementById("memory");
    home.replaceChildren(element("h2", {}, "Memory ", element("small", {}, `${busy.size} range${busy.size > 1 ? "s" : ""}${rest > 0 ? `, the ${this.shown.length} busiest` : ""}`), key));
    for (const region of this.shown) {
      const [base, size] = trace.regions[region];
      const canvas = element("canvas", { role: "img", "aria-label": `Accesses to ${base}` });
      this.strips.set(region, canvas);
      home.append(element("div", { class: "region" }, element("span", {}, element("code", {}, base), bytes(size)), canvas));
    }
  }

  draw() {
    if (!this.shown.length) return;
    const { trace, timeline } = this, paint = new Map();
    const dark = isDark(), whats = dark ? [[152, 163, 177], [130, 170, 255], [255, 178, 89]] : [[110, 122, 136], [36, 88, 197], [196, 98, 0]];
    document.querySelectorAll("[data-what]").forEach((each) => { each.style.background = `rgb(${whats[each.dataset.what]})`; });
    for (const [region, canvas] of this.strips) {
      canvas.width = Math.max(canvas.clientWidth, 1);
      canvas.height = trace.regions[region][1] > 256 ? 40 : 16;
      canvas.style.height = `${canvas.height}px`;
      paint.set(region, canvas.getContext("2d").createImageData(canvas.width, canvas.height));
    }
    const { memoryOrder, memoryTime, memoryRegion, memoryOffset, memorySize, memoryWhat } = trace.arrays;
    const positions = timeline.axis === "steps" ? memoryTime : memoryOrder, count = positions.length;
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
    for (const [region, canvas] of this.strips) canvas.getContext("2d").putImageData(paint.get(region), 0, 0);
  }
}

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit++; }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}

// How many events there are along the shown part, and how many things are open at once in lanes that hold several.
class Activity {
  constructor(trace, timeline) {
    this.trace = trace;
    this.timeline = timeline;
    this.home = document.getElementById("activity");
    const depths = new Map();
    for (const { lane, depth } of trace.tracks) depths.set(lane, depth);
    this.lanes = [...depths].filter(([, depth]) => depth > 1).slice(0, 6);
  }

  values() {
    const { trace, timeline } = this, columns = Math.max(40, Math.floor(timeline.span() / 4));
    const step = (timeline.to - timeline.from) / columns, { starts, ends } = timeline;
    const at = Array.from({ length: columns }, (_, index) => timeline.from + (index + 0.5) * step);
    const events = new Array(columns).fill(0);
    for (const { from, to } of trace.tracks) {
      let event = lower(starts, from, to, timeline.from);
      for (let column = 0; column < columns; column++) {
        const next = lower(starts, event, to, timeline.from + (column + 1) * step);
        events[column] += next - event;
        event = next;
      }
    }
    const isOpen = ({ from, to }, position) => { const event = lower(ends, from, to, position); return event < to && starts[event] <= position; };
    const open = this.lanes.map(([lane]) => {
      const tracks = trace.tracks.filter((track) => track.lane === lane && track.depth);
      return at.map((position) => tracks.filter((track) => isOpen(track, position)).length);
    });
    return [at, events, ...open];
  }

  draw() {
    const { timeline } = this, values = this.values();
    if (this.plot && this.theme === isDark() && this.width === timeline.width) { this.plot.setData(values); return; }
    this.plot?.destroy();
    this.theme = isDark();
    this.width = timeline.width;
    const shades = colours(), points = { show: false };
    const axis = { stroke: shades.soft, grid: { stroke: shades.line, width: 1 }, ticks: { show: false } };
    const fromZero = (_, low, high) => [0, Math.max(high, 1) * 1.05];
    this.plot = new uPlot({
      width: timeline.width, height: 110, padding: [10, 0, 8, 0], legend: { live: false }, cursor: { y: false, drag: { x: false } },
      scales: { x: { time: false, range: () => [timeline.from, timeline.to] }, events: { range: fromZero }, open: { range: fromZero } },
      axes: [{ ...axis, show: false },
        { ...axis, scale: "events", size: LABELS, space: 28, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5], values: (_, at) => at.map(grouped) }],
      series: [{}, { label: "events", scale: "events", stroke: shades.soft, fill: shades.soft, width: 0, points, paths: uPlot.paths.bars({ size: [0.9, 12] }) },
        ...this.lanes.map(([lane, most], index) => ({ label: `open at once: ${lane} (up to ${most})`, scale: "open",
          stroke: shades.kinds[index], width: 1.5, points, paths: uPlot.paths.stepped({ align: 0 }) }))],
    }, values, this.home);
  }
}
