"use strict";
// Elements and tables, and the panels below the timeline; all text goes in as text, never as markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== "") made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== ""));
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

// The chosen event under the timeline; it is empty if none is chosen.
function showDetail(trace, event) {
  const home = document.getElementById("detail");
  home.hidden = event < 0;
  if (event < 0) { home.replaceChildren(); return; }
  const span = !trace.isMoment(event), steps = trace.end[event] - trace.begin[event];
  const facts = [
    ["kind", trace.kind(event)], ["lane", trace.track(event).lane],
    ["event", span ? `${grouped(trace.first[event])} – ${grouped(trace.last[event])}` : grouped(trace.first[event])],
    ["step", grouped(trace.begin[event])], ...(span ? [["lasts", `${grouped(steps)} step${steps === 1 ? "" : "s"}`]] : []),
  ];
  const isFinding = trace.arrays.marks[event] === 1; // its error is shown above
  const fields = trace.fields(event).filter(([name]) => !(isFinding && ["error", "message"].includes(name)));
  home.replaceChildren(element("h2", {}, trace.name(event)), element("dl", {}, ...[...facts, ...fields].map(([name, text]) =>
    element("div", { class: text.length > 60 ? "long" : "" }, element("dt", {}, name), element("dd", {}, text)))));
}

function tipText(trace, event) {
  const fields = trace.fields(event).slice(0, 8).map(([name, text]) => `${name} ${text.slice(0, 80)}`).join(" · ");
  const lasts = trace.isMoment(event) ? "" : `, ${grouped(trace.end[event] - trace.begin[event])} steps`;
  const finding = trace.findings.find(({ events }) => events.includes(event));
  return [element("b", {}, trace.name(event)), ` at step ${grouped(trace.begin[event])}${lasts}`, element("br"),
    fields, finding ? element("div", { class: "bad" }, sentence(finding), finding.rule ? ` [${finding.rule}]` : "") : ""];
}

// What registers and signals held after the event with number `order`: the last value that was read or written.
class Registers {
  constructor(trace) {
    this.trace = trace;
    this.home = document.getElementById("registers");
    this.place = this.home.parentElement;
    this.kinds = ["register-access", "signal-changed"].map((kind) => trace.kinds.indexOf(kind));
    this.any = this.kinds.some((kind) => kind >= 0);
  }

  // Moves the panel beside a finding that has no other registers, or back.
  dock(home) {
    if (home ? this.home.parentElement === home : this.home.parentElement === this.place) return;
    if (home) home.append(this.home); else this.place.prepend(this.home);
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
    const { home } = this;
    if (!this.any) return;
    const held = this.at(order), said = { yes: "written", no: "read" };
    home.hidden = !held.length;
    home.replaceChildren(heading("Registers and signals", `after event ${grouped(order)}`),
      table(["name", "value", "last", "event"], held.map(([name, event]) =>
        [name, this.field(event, "value"), said[this.field(event, "write")] ?? "changed", grouped(this.trace.first[event])]),
      { numbers: [3], codes: [0, 1], choose: (index) => choose(held[index][1]) }));
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
        fidelity ? element("span", { class: "fidelity" }, fidelity) : "", grouped(count)]), { numbers: [3], codes: [0] }));
  }
}

function showPlaces(trace) {
  if (!trace.places.length) return;
  const most = trace.places[0][3];
  document.getElementById("places").replaceChildren(heading("Executed, by place", trace.placeCount > trace.places.length ? `the ${trace.places.length} most frequent of ${grouped(trace.placeCount)}` : String(trace.placeCount)),
    table(["lane", "place", "what", "times"], trace.places.map(([lane, place, what, count]) => [lane, place, what,
      element("span", { title: `${Math.round(100 * count / most)} % of the most frequent` }, grouped(count))]), { numbers: [3], codes: [1, 2] }));
}

function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit++; }
  return `${Number.isInteger(size) ? size : size.toFixed(1)} ${units[unit]}`;
}
