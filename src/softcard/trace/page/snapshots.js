"use strict";
// Registers at chosen moments: those of one wave or hart, beside the code around its instruction.

const FORMS = {
  hex: (word) => word, signed: (word) => String(parseInt(word, 16) | 0), unsigned: (word) => String(parseInt(word, 16)),
  float: (word) => { const view = new DataView(new ArrayBuffer(4)); view.setUint32(0, parseInt(word, 16)); return String(Math.fround(view.getFloat32(0)).toPrecision(7) / 1); },
};

class Snapshots {
  constructor(trace, choose) {
    const { snapshots = [], snapshotCount = 0 } = trace, beside = new Set(trace.findings.map(({ snapshot }) => snapshot));
    if (snapshots.every(([, , , , , , vectors], index) => beside.has(index) && !vectors.some(([, values]) => values.includes(" ")))) return; // findings show them
    [this.trace, this.choose, this.form, this.home] = [trace, choose, "hex", element("div", { class: "snapshot" })];
    const options = snapshots.map(([, why, place, pc, text], index) => element("option", { value: index }, `${why} · ${text || pc} · ${place}`));
    const select = element("select", { "aria-label": "Moment", onchange: () => this.show(Number(select.value)) }, ...options);
    const forms = element("select", { "aria-label": "Numbers of lanes", onchange: () => { this.form = forms.value; this.show(this.shown); } },
      ...Object.keys(FORMS).map((each) => element("option", { value: each }, each)));
    const more = snapshotCount > snapshots.length ? `the first ${snapshots.length} of ${grouped(snapshotCount)} moments` : `${snapshots.length} moment${snapshots.length > 1 ? "s" : ""}`;
    document.getElementById("snapshots").replaceChildren(heading("Registers at chosen moments", more), element("p", { class: "chooser" }, select, ...(snapshots.some(([, , , , , , vectors]) => vectors.length) ? [forms] : [])), this.home);
    this.show(0);
  }

  show(index) {
    this.shown = index;
    const [event, why, place, pc, text, scalars, vectors] = this.trace.snapshots[index];
    const named = registersOf(text);
    const link = element("p", { class: "soft caption" }, element("a", { href: "#timeline", onclick: () => this.choose(event) }, `event ${grouped(this.trace.first[event])}`), `, ${place}`);
    const exec = scalars.find(([name]) => name === "exec");
    const lanes = exec ? BigInt(exec[1]) : -1n;
    const list = element("div", { class: "scalars" }, ...scalars.map(([name, value]) =>
      element("div", { class: named.has(name) ? "named" : "" }, element("code", {}, name), element("code", {}, value))));
    this.home.replaceChildren(element("div", {}, link, this.around(pc, text, why)), element("div", {}, list, vectors.length ? this.lanes(vectors, lanes, named) : ""));
  }

  // The code around an instruction, where the report has it.
  around(pc, text, why) {
    const bad = why === "fault" || why === "finding" ? "failed" : "";
    const found = codeAround(this.trace, pc, bad);
    if (found) return found.table;
    const row = element("tr", { class: `here ${bad}` }, element("td", { class: "code soft" }, pc), element("td", { class: "code" }, text));
    return element("div", { class: "around" }, element("table", {}, element("tbody", {}, row)));
  }

  // A column for each lane; what EXEC leaves out is grey.
  lanes(vectors, exec, named) {
    const words = vectors.map(([, values]) => values.split(" "));
    const count = Math.max(...words.map((each) => each.length));
    const head = element("tr", {}, element("th", {}, "lane"), ...Array.from({ length: count }, (_, lane) => element("th", { class: "number" }, String(lane))));
    const rows = vectors.map(([name], row) => element("tr", { class: named.has(name) ? "named" : "" }, element("td", { class: "code" }, name),
      ...words[row].map((word, lane) => element("td", { class: exec >> BigInt(lane) & 1n ? "number code" : "number code off" }, word.length === 8 ? FORMS[this.form](word) : word))));
    return element("div", { class: "scroll tall lanes", tabindex: "0", "aria-label": "registers of lanes" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }
}
