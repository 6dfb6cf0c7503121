"use strict";
// The code: each function's disassembly with counts beside the lines of source that it comes from. Short functions of the program
// are open; those of run-time libraries are folded together.

const MOST_ROWS = 4000, MOST_OPENED = 3, SHORT = 120;

class Code {
  constructor(trace) {
    const { code: programs, notes = [], findings } = trace;
    this.faults = new Set(trace.faults);
    this.sources = findings.flatMap(({ diagnostic: { source } }) => (source ? [[source.file, source.line]] : []));
    this.home = document.getElementById("code");
    this.functions = programs.flatMap((program) => program.functions.map(([name, rows, isLibrary]) =>
      ({ program, name, rows, isLibrary, count: rows.reduce((sum, row) => sum + row[3], 0), failed: rows.some(([pc]) => this.faults.has(pc)) })));
    const said = notes.map((text) => element("p", { class: "soft" }, text));
    if (!this.functions.length) {
      if (said.length) this.home.replaceChildren(heading("Code", "none is shown"), ...said);
      return;
    }
    const total = (this.total = this.functions.reduce((sum, { count }) => sum + count, 0));
    const own = this.functions.filter(({ isLibrary, failed }) => failed || !isLibrary).sort((one, other) => other.failed - one.failed);
    const library = this.functions.filter((each) => !own.includes(each));
    if (!own.length) own.push(...library.splice(0));
    const silent = programs.flatMap(({ silent }) => silent), silentCount = programs.reduce((sum, { silentCount }) => sum + silentCount, 0);
    const rest = silentCount ? [element("details", {}, element("summary", {}, `${grouped(silentCount)} function${silentCount > 1 ? "s" : ""} not executed`),
      element("p", { class: "soft" }, silent.join(", ") + (silentCount > silent.length ? ", …" : "")))] : [];
    const counted = programs.some(({ counted }) => counted);
    const isCommands = programs.every(({ target }) => target === "user commands");
    const head = counted ? `${grouped(total)} ${isCommands ? "commands executed" : "instructions retired"}` : programs.every(({ isSource }) => isSource) ? "" : "instructions were not counted";
    const folded = library.length ? [element("details", { class: "library" }, element("summary", {}, "Run-time library ", element("small", {}, [`${grouped(library.length)} function${library.length > 1 ? "s" : ""}`,
      ...(counted ? [`${share(library.reduce((sum, { count }) => sum + count, 0), total)} of the instructions`] : [])].join(", "))), ...library.map((each) => this.section(each)))] : [];
    this.home.replaceChildren(heading("Code", head), ...own.map((each) => this.section(each)), ...folded, ...rest, ...said);
    const failed = own.filter((each) => each.failed);
    let room = MOST_OPENED;
    (failed.length ? failed : own).forEach((each, index) => { if (index === 0 || (each.rows.length <= SHORT && room > 0)) { this.open(each); room--; } });
  }

  section(each) {
    const { program, name, rows, count } = each;
    const unit = program.isSource ? "line" : program.target === "user commands" ? "command" : "instruction";
    const missed = rows.filter((row) => row[4] && !row[3]).length;
    const about = [...(program.counted && program.target !== "user commands" ? [share(count, this.total)] : []), `${grouped(rows.length)} ${unit}${rows.length === 1 ? "" : "s"}`,
      ...(program.counted && !program.isSource ? [each.failed && program.target === "user commands" ? "failed" : missed ? `${grouped(missed)} not executed` : "all executed"] : []), `${program.name}, ${program.target}`];
    const body = element("div", { class: "listing" });
    each.details = element("details", { class: "function" }, element("summary", {}, element("code", {}, name), element("small", {}, about.join(" · "))), body);
    each.details.addEventListener("toggle", () => { if (each.details.open) this.fill(each, body); });
    each.body = body;
    return each.details;
  }

  open(each) { each.details.open = true; this.fill(each, each.body); }

  fill(each, body) {
    if (body.firstChild) return; // made once, when it is opened
    const { program, rows } = each;
    const most = Math.max(1, ...rows.map((row) => row[3]));
    const has = { times: program.counted, modelled: rows.some((row) => row[4] && row[4] !== "exact"), line: rows.some((row) => row[7]) };
    const source = this.source(program, rows, has, body);
    const parts = source ? [source] : [];
    if (!program.isSource) {
      const shown = rows.slice(0, MOST_ROWS).map((row) => this.instruction(row, most, has, body));
      const heads = [...(has.times ? ["times"] : []), program.target === "user commands" ? "offset" : "address", program.target === "user commands" ? "command" : "instruction", ...(has.modelled ? ["modelled"] : []), ...(has.line ? ["line"] : [])];
      const more = rows.length > MOST_ROWS ? [element("p", { class: "soft" }, `the first ${grouped(MOST_ROWS)} of ${grouped(rows.length)}`)] : [];
      parts.push(element("div", {}, this.table(heads, shown, "instructions"), ...more));
    }
    body.replaceChildren(...parts);
    body.classList.toggle("beside", parts.length > 1);
    for (const box of body.querySelectorAll(".scroll")) {
      const failed = box.querySelector("tr.failed");
      if (failed) box.scrollTop = failed.offsetTop - box.clientHeight / 2; // in its own window: the page stays where it is
    }
  }

  table(heads, rows, name) {
    const head = element("tr", {}, ...heads.map((each) => element("th", { class: each === "times" ? "number" : "" }, each)));
    return element("div", { class: "scroll tall", tabindex: "0", "aria-label": name },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
  }

  times(count, most, text) { return element("td", { class: "number heat", style: `--heat: ${count ? Math.max(4, Math.round(100 * count / most)) : 0}%` }, text); }

  instruction([pc, text, label, count, fidelity, bound, file, line], most, has, body) {
    const name = label ? element("b", {}, `${label}:`, element("br")) : null;
    const modelled = fidelity && fidelity !== "exact" ? element("span", { class: "fidelity" }, bound ? `${fidelity}, ${bound}` : fidelity) : "";
    const isFailed = this.faults.has(pc);
    const row = element("tr", { class: isFailed ? "failed" : count || !has.times ? "" : "never", title: isFailed ? "a finding names this instruction" : "", "data-line": line ? `${file}:${line}` : "", "data-pc": pc },
      has.times ? this.times(count, most, grouped(count)) : null, element("td", { class: "code soft" }, pc),
      element("td", { class: "code text" }, name, text), has.modelled ? element("td", {}, modelled) : null, has.line ? element("td", { class: "code soft" }, line ? String(line) : "") : null);
    if (line) row.addEventListener("click", () => this.mark(body, `${file}:${line}`));
    return row;
  }

  // For each file, the lines that instructions come from and a few around them; for a Python function, all its lines.
  source(program, rows, has, body) {
    const counts = new Map(), around = program.isSource ? [0] : [-3, -2, -1, 0, 1, 2, 3];
    for (const [, , , count, , , file, line] of rows) if (line) counts.set(`${file}:${line}`, (counts.get(`${file}:${line}`) ?? 0) + count);
    const failed = new Set(rows.filter(([pc]) => this.faults.has(pc)).map((row) => `${row[6]}:${row[7]}`));
    const most = Math.max(1, ...counts.values());
    const parts = program.files.map(([path, lines], file) => ({ path, lines, file, used: rows.filter((row) => row[6] === file && row[7]).map((row) => row[7]) }))
      .filter(({ lines, used }) => lines.length && used.length);
    if (!parts.length) return null;
    const width = has.times ? 3 : 2;
    const made = parts.flatMap(({ path, lines, file, used }) => {
      for (const [name, line] of this.sources) if (path === name || path.endsWith(`/${name}`)) failed.add(`${file}:${line}`);
      const shown = [...new Set(used.flatMap((line) => around.map((by) => line + by)))]
        .filter((line) => line > 0 && line <= lines.length).sort((one, other) => one - other).slice(0, MOST_ROWS);
      const head = element("tr", {}, element("td", { class: "code soft file", colspan: String(width) }, path));
      return [head, ...shown.flatMap((line, index) => {
        const key = `${file}:${line}`, count = counts.get(key);
        const gap = index && shown[index - 1] < line - 1 ? [element("tr", {}, ...(has.times ? [element("td", {})] : []), element("td", { class: "number soft" }, "⋯"), element("td", {}))] : [];
        const row = element("tr", { "data-line": key, class: failed.has(key) ? "failed" : count === 0 && has.times ? "never" : "" },
          has.times ? this.times(count ?? 0, most, count === undefined ? "" : grouped(count)) : null,
          element("td", { class: "number soft code" }, String(line)), element("td", { class: "code text" }, lines[line - 1]));
        if (count !== undefined && !program.isSource) row.addEventListener("click", () => this.mark(body, key));
        return [...gap, row];
      })];
    });
    return this.table([...(has.times ? ["times"] : []), "line", program.isSource ? "source" : "source: click a line for its code"], made, "source");
  }

  // Shows what belongs together: a line of source, and the instructions that come from it.
  mark(body, key) {
    for (const row of body.querySelectorAll("tr[data-line]")) row.classList.toggle("marked", row.dataset.line === key);
    for (const box of body.querySelectorAll(".scroll")) {
      const row = box.querySelector("tr.marked");
      if (row && (row.offsetTop < box.scrollTop + 24 || row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight)) box.scrollTop = row.offsetTop - box.clientHeight / 3;
    }
  }
}

function share(count, total) {
  const percent = 100 * count / Math.max(total, 1);
  return percent >= 99.95 ? "100 %" : percent < 0.1 ? "under 0.1 %" : `${percent.toFixed(1)} %`;
}

function showOpcodes(trace) {
  if (!trace.opcodes.length) return;
  const opcodes = [...trace.opcodes].sort((one, other) => (one[1] === "exact") - (other[1] === "exact")); // what is not exact first
  const rows = opcodes.map(([name, fidelity, bound, count]) => [name,
    element("span", { class: fidelity === "exact" ? "soft" : "fidelity" }, bound ? `${fidelity}, ${bound}` : fidelity), grouped(count)]);
  const kinds = new Map();
  for (const [, fidelity] of trace.opcodes) kinds.set(fidelity, (kinds.get(fidelity) ?? 0) + 1);
  const link = trace.opcodeLink ? element("p", { class: "soft" }, element("a", { href: trace.opcodeLink }, "What these words mean")) : null;
  document.getElementById("opcodes").replaceChildren(heading("Opcodes executed", [...kinds].map(([fidelity, count]) => `${count} ${fidelity}`).join(", ")),
    table(["opcode", "modelled", "times"], rows, { numbers: [2], codes: [0] }), ...(link ? [link] : []));
}
