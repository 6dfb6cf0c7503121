"use strict";
// The findings: a list, and for the chosen one its source lines and notes, and the instruction's registers and code.

const AROUND = 6; // instructions before and after that of a finding
const CONTEXT = 4; // lines before and after that of a finding
const COLUMNS = Math.min(84, Math.floor((innerWidth - 100) / 7.6)); // of an excerpt; a longer label is below its carets
const LANES_OF_WAVE = 64;

class FindingsPane {
  constructor(trace, registers, choose) {
    Object.assign(this, { trace, registers, choose, home: document.getElementById("findings"), shown: -1 });
    this.rules = new Map(trace.rules.map((rule) => [rule[0], rule]));
    if (!trace.findings.length) {
      this.home.classList.add("none");
      this.home.replaceChildren(element("p", {}, element("span", { class: "badge good" }, "no findings"), " No error, fault or lint in this trace."));
      return;
    }
    this.story = element("div", { class: "story" });
    this.state = element("div", { class: "state" });
    this.rows = trace.findings.map((finding, index) => this.row(finding, index));
    const more = trace.findingCount > this.rows.length ? `the first ${this.rows.length} of ${grouped(trace.findingCount)}` : String(this.rows.length);
    const list = this.rows.length > 1 ? [element("div", { class: "list" }, heading("Findings", more), element("div", { class: "scroll", tabindex: "-1" }, ...this.rows))] : [];
    this.home.replaceChildren(...list, element("div", { class: "finding" }, this.story, this.state));
  }

  row(finding, index) {
    const at = finding.diagnostic.at ?? "", often = countOf(finding);
    const go = () => this.choose(finding.event, index);
    return element("div", { class: "row", tabindex: "0", role: "button", onclick: go, onkeydown: (event) => event.key === "Enter" && go() },
      badge(finding), " ", element("span", {}, sentence(finding)), at ? element("code", { class: "soft" }, ` ${at}`) : "", often > 1 ? element("span", { class: "soft" }, ` × ${grouped(often)}`) : "");
  }

  // Shows the finding that an event reports, or finding `index` if it has several; returns true if there is one.
  show(event, index = this.trace.findings.findIndex(({ events }) => events.includes(event))) {
    if (index < 0 || !this.story) return false;
    this.shown = index;
    const finding = this.trace.findings[index];
    this.rows.forEach((row, each) => row.classList.toggle("chosen", each === index));
    this.story.replaceChildren(...this.told(finding));
    const state = this.stateOf(finding);
    this.state.replaceChildren(...state);
    this.home.querySelector(".finding").classList.toggle("alone", !state.length);
    return true;
  }

  told(finding) {
    const { trace } = this, found = finding.diagnostic, page = trace.checkLinks?.[finding.what];
    const id = found.id ?? (finding.rule || finding.what);
    const name = page ? element("a", { href: page }, id) : id;
    const head = element("h2", {}, badge(finding), " ", element("code", {}, name), element("br"), sentence(finding));
    if (typeof found === "string" && found) return [head, element("pre", { class: "diagnostic" }, found)];
    const where = [found.at, found.source ? found.code : "", found.source ? "" : found.label].filter((each) => each && each !== found.id);
    const insn = found.insn ?? rowAt(trace, finding.pc)?.row[1];
    const excerpt = found.source ? excerptOf(withContext(trace, found.source), found.label) : insn ? instructionOf(insn, found.label) : "";
    const known = this.rules.get(finding.rule), hasOwn = (found.notes ?? []).some(({ kind }) => kind === "rule");
    const rule = known && (known[2] || !hasOwn) ? known : null; // rules of machine code have no text here
    const notes = (found.notes ?? []).filter(({ kind }) => kind !== "rule" || !rule);
    return [head, where.length ? element("p", { class: "where" }, ...where.flatMap((each, number) => [number ? " · " : "", element("code", {}, each)])) : "",
      excerpt, ...notes.map(noteOf), rule ? ruleNote(rule) : "", this.reported(finding)];
  }

  // Links to the events that report a finding, if there are several.
  reported({ events }) {
    if (events.length < 2) return "";
    const { trace } = this;
    const links = events.slice(0, 8).flatMap((event, number) => [number ? ", " : "", element("a", { href: "#timeline", onclick: (click) => { click.preventDefault(); this.choose(event); } }, `${trace.kind(event)} (event ${grouped(trace.first[event])})`)]);
    return element("p", { class: "note soft" }, "reported by ", ...links, events.length > 8 ? `, and ${grouped(events.length - 8)} more` : "");
  }

  stateOf(finding) {
    const { trace } = this, taken = trace.snapshots?.[finding.snapshot], found = finding.diagnostic;
    const pc = finding.pc || taken?.[3], code = pc ? codeAround(trace, pc, "failed") : null;
    const parts = [];
    if (taken) parts.push(heading("Registers", `${taken[2] ? `${taken[2]}, ` : ""}before the instruction`), ...registersAt(taken, found.lanes ?? []));
    else if (found.no_registers) parts.push(heading("Registers", "unknown"), element("p", { class: "soft" }, found.no_registers.replaceAll("--", "\u2011\u2011")));
    if (!taken && found.lanes?.length) parts.push(heading("Lanes", found.label), laneMap(null, found.lanes));
    else if (!taken && this.registers.any) { this.registers.dock(this.state); parts.push(this.registers.home); }
    if (!parts.includes(this.registers.home)) this.registers.dock(null);
    if (code && !code.isAlone) parts.push(heading(pc.startsWith("0x") ? "Instructions" : "Commands", code.name), code.table);
    return parts;
  }
}

function sentence({ diagnostic, message }) { return diagnostic.message ?? message; }
function countOf({ events, diagnostic }) { return Math.max(events.length > 1 && !diagnostic.message ? events.length : 1, 1); }

function badge({ diagnostic, what }) {
  const level = diagnostic.level ?? (/fault|fail|error|abort|trap|finish/.test(what) ? "error" : "warning");
  return element("span", { class: `badge ${level}` }, level);
}

// Lines of source with their numbers; the position is marked, and underlined by carets where its columns are known.
function excerptOf({ file, line, parts, lines }, label = "") {
  const [before, marked, after] = parts;
  const rows = lines.flatMap(([number, text]) => {
    if (number !== line) return [sourceRow(number, text)];
    const blank = before.replace(/[^\t]/g, " "), carets = "^".repeat([...marked].length), isLong = before.length + marked.length + label.length >= COLUMNS;
    const row = (said) => element("div", { class: "carets" }, element("i", {}), element("span", {}, said));
    const under = marked && isLong ? [row(blank + carets), row(" ".repeat(Math.max(0, Math.min(before.length, COLUMNS - label.length))) + label)]
      : marked ? row(blank + carets + (label ? ` ${label}` : "")) : label ? element("div", { class: "carets" }, element("i", {}), element("span", {}, before.replace(/\S.*$/, "") + label)) : "";
    return [element("div", { class: "here" }, element("i", {}, String(number)), element("span", {}, before, marked ? element("b", {}, marked) : "", after)), ...[under].flat()];
  });
  return element("div", { class: "excerpt", tabindex: "0", "aria-label": file }, element("div", {}, ...rows));
}

// A source that was passed as text has no file; the lines around the position are those of the code.
function withContext(trace, source) {
  const known = source.lines.length > 1 ? null : trace.code.flatMap(({ files }) => files).find(([path, lines]) => path === source.file && lines.length);
  if (!known) return source;
  const first = Math.max(source.line - CONTEXT, 1), lines = known[1].slice(first - 1, source.line + CONTEXT).map((text, index) => [first + index, text]);
  while (lines.length && lines.at(-1)[0] > source.line && !lines.at(-1)[1].trim()) lines.pop();
  return { ...source, lines };
}

function sourceRow(number, text) { return element("div", {}, element("i", {}, String(number)), element("span", {}, text)); }

function instructionOf(insn, label = "") {
  const [name] = insn.split(" ");
  return element("div", { class: "excerpt", tabindex: "0" }, element("div", {}, element("div", { class: "here" }, element("i", {}), element("span", {}, element("b", {}, name), insn.slice(name.length))),
    element("div", { class: "carets" }, element("i", {}), element("span", {}, "^".repeat(name.length) + (label ? ` ${label}` : "")))));
}

function noteOf({ kind, text, at, label, source, insn }) {
  const where = [at, insn].filter(Boolean).join(": ");
  return element("div", { class: `note ${kind}` }, element("b", {}, `${kind}: `), text, where ? element("code", { class: "soft" }, ` ${where}`) : "",
    source ? excerptOf(source, label) : label ? `, ${label}` : "");
}

function ruleNote([name, clause, text, fidelity, , link]) {
  return element("div", { class: "note rule" }, element("b", {}, "rule: "), link ? element("a", { href: link }, name) : element("code", {}, name), " ",
    text ? `${text} (${clause})` : clause, fidelity ? [" ", element("span", { class: "fidelity" }, `modelled: ${fidelity}`)] : "");
}

// The instruction at an address, with its function, if the report has it.
function rowAt(trace, pc) {
  for (const { functions } of pc ? trace.code : []) {
    for (const [name, rows] of functions) {
      const at = rows.findIndex(([each]) => each === pc);
      if (at >= 0) return { name, rows, at, row: rows[at] };
    }
  }
  return null;
}

// The code around an instruction, if the report has it.
function codeAround(trace, pc, kind) {
  const found = rowAt(trace, pc);
  if (!found) return null;
  const { name, rows, at } = found;
  const body = rows.slice(Math.max(at - AROUND, 0), at + AROUND + 1).map(([each, said, label]) =>
    element("tr", { class: each === pc ? `here ${kind}` : "" }, element("td", { class: "code soft" }, each), element("td", { class: "code" }, label ? `${label}: ${said}` : said)));
  return { name, isAlone: rows.length === 1, table: element("div", { class: "around", tabindex: "0", "aria-label": "code around it" }, element("table", {}, element("tbody", {}, ...body))) };
}

// The registers of a snapshot that its instruction names, then the others; the lanes of a wave.
function registersAt([, , , , text, scalars, vectors], lanes) {
  const exec = scalars.find(([name]) => name === "exec"), named = registersOf(text);
  const values = vectors.length && lanes.length ? vectors.map(([name, words]) => [name, `0x${words.split(" ")[lanes[0]] ?? ""}`]) : [];
  const all = [...scalars, ...values].filter(([name]) => name !== "exec" || !lanes.length);
  const pairs = pairsOf(text).flatMap(([name, low, high]) => {
    const words = [low, high].map((each) => all.find(([other]) => other === each)?.[1]);
    return words.every(Boolean) ? [[name, `0x${((BigInt(words[1]) << 32n) + BigInt(words[0])).toString(16)}`]] : [];
  });
  const wide = new Set(pairsOf(text).flatMap(([, low, high]) => [low, high]));
  const first = [...pairs, ...all.filter(([name]) => named.has(name) && !(pairs.length && wide.has(name)))];
  const rest = all.filter(([name]) => !named.has(name) || (name === "exec" && !first.some(([other]) => other === name)));
  const isZero = ([, value]) => /^0x0*$/.test(value), zeros = rest.filter(isZero);
  const item = (kind) => ([name, value]) => element("div", { class: kind }, element("code", {}, name), element("code", {}, value));
  const shown = element("div", { class: "scalars" }, ...first.map(item("named")), ...rest.filter((each) => !isZero(each)).map(item("")));
  return [exec && lanes.length ? laneMap(exec[1], lanes) : "", shown,
    zeros.length ? element("p", { class: "soft zeros" }, "0 in ", element("code", {}, zeros.map(([name]) => name).join(", "))) : ""];
}

// A square for each lane of a wave: lanes of the finding, other active lanes, and inactive lanes.
function laneMap(exec, lanes) {
  const active = exec === null ? null : BigInt(exec), bad = new Set(lanes);
  const count = active === null ? 0 : [...active.toString(2)].filter((bit) => bit === "1").length;
  const cells = Array.from({ length: LANES_OF_WAVE }, (_, lane) => element("i", {
    class: bad.has(lane) ? "failed" : active !== null && active >> BigInt(lane) & 1n ? "active" : "", title: `lane ${lane}` }));
  const those = lanes.length === 1 ? `lane ${lanes[0]} is at fault` : `${lanes.length} lanes are at fault`;
  const said = active === null ? `${those}, of ${LANES_OF_WAVE}` : `${count} of ${LANES_OF_WAVE} lanes are active (exec ${exec}), ${those}`;
  return element("figure", { class: "lane-map" }, element("div", { role: "img", "aria-label": said }, ...cells), element("figcaption", {}, said));
}

// The names of the registers that an instruction's text has: v[2:3] are v2 and v3.
function registersOf(text) {
  const found = new Set(text.match(/\b(?:exec|vcc|m0|flat_scratch|[a-z]{1,2}\d+|ra|sp|gp|tp)\b/g) ?? []);
  for (const [, kind, from, to] of text.matchAll(/\b([asv])\[(\d+):(\d+)\]/g)) for (let each = Number(from); each <= Number(to); each++) found.add(kind + each);
  return found;
}

// Pairs of registers that an instruction's text names, such as v[2:3]: addresses are in pairs.
function pairsOf(text) {
  return [...text.matchAll(/\b([asv])\[(\d+):(\d+)\]/g)].filter(([, , from, to]) => to - from === 1)
    .map(([name, kind, from, to]) => [name, kind + from, kind + to]).filter(([name], index, all) => all.findIndex(([other]) => other === name) === index);
}
