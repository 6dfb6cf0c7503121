"use strict";
// What was executed: each function's disassembly with counts, and beside it the lines of source that it comes from.

const MOST_ROWS = 4000;

class Code {
  constructor(programs, faults, notes) {
    this.faults = new Set(faults);
    this.home = document.getElementById("code");
    this.functions = programs.flatMap((program) => program.functions.map(([name, rows]) => ({ program, name, rows, count: rows.reduce((sum, row) => sum + row[3], 0) })));
    const said = notes.map((text) => element("p", { class: "soft" }, text));
    if (!this.functions.length) {
      if (said.length) this.home.replaceChildren(heading("Code", "none is shown"), ...said);
      return;
    }
    const total = this.functions.reduce((sum, { count }) => sum + count, 0);
    const choices = this.functions.map(({ program, name, count }, index) =>
      element("option", { value: index }, `${name} · ${program.counted ? `${share(count, total)} · ` : ""}${program.name}, ${program.target}`));
    const heads = programs.some(({ counted }) => counted) ? `${grouped(total)} instructions retired` : "instructions were not counted";
    this.select = element("select", { "aria-label": "Function", onchange: () => this.show(Number(this.select.value)) }, ...choices);
    const silent = programs.flatMap(({ silent }) => silent), silentCount = programs.reduce((sum, { silentCount }) => sum + silentCount, 0);
    const rest = silentCount ? element("details", {}, element("summary", {}, `${grouped(silentCount)} function${silentCount > 1 ? "s" : ""} not executed`),
      element("p", { class: "soft" }, silent.join(", ") + (silentCount > silent.length ? ", …" : ""))) : null;
    this.listing = element("div", { class: "listing" });
    this.home.replaceChildren(heading("Code", heads), element("p", { class: "chooser" }, this.select), this.listing, ...(rest ? [rest] : []), ...said);
    const failed = Math.max(0, this.functions.findIndex(({ rows }) => rows.some(([pc]) => this.faults.has(pc))));
    this.select.value = String(failed);
    this.show(failed);
  }

  show(index) {
    const { program, rows } = this.functions[index];
    const most = Math.max(1, ...rows.map((row) => row[3]));
    const only = [rows.some((row) => row[4] && row[4] !== "exact"), rows.some((row) => row[7])]; // columns that say anything
    this.rows = rows.slice(0, MOST_ROWS).map((row) => this.instruction(row, most, only, program.counted));
    const missed = rows.filter((row) => row[4] && !row[3]).length;
    const more = rows.length > MOST_ROWS ? `the first ${grouped(MOST_ROWS)} of ${grouped(rows.length)} instructions` : `${grouped(rows.length)} instructions`;
    const code = this.table(["times", "address", "instruction", ...(only[0] ? ["modelled"] : []), ...(only[1] ? ["line"] : [])], this.rows, program.counted ? `${more}${missed ? `, ${grouped(missed)} not executed` : ", all executed"}` : more);
    const source = this.source(program, rows);
    this.listing.replaceChildren(...(source ? [source, code] : [code]));
    this.listing.classList.toggle("beside", Boolean(source));
    const failed = this.rows.find((row) => row.classList.contains("failed")), box = failed?.closest(".scroll");
    if (box) box.scrollTop = failed.offsetTop - box.clientHeight / 2; // in its own window: the page stays where it is
  }

  table(heads, rows, caption) {
    const head = element("tr", {}, ...heads.map((each) => element("th", { class: each === "times" ? "number" : "" }, each)));
    return element("div", {}, element("p", { class: "soft caption" }, caption), element("div", { class: "scroll tall", tabindex: "0", "aria-label": caption },
      element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))));
  }

  heat(count, most) { return `--heat: ${count ? Math.max(4, Math.round(100 * count / most)) : 0}%`; }

  instruction([pc, text, label, count, fidelity, bound, file, line], most, [hasModelled, hasLine], counted) {
    const name = label ? element("b", {}, `${label}:`, element("br")) : null;
    const modelled = fidelity && fidelity !== "exact" ? element("span", { class: "fidelity" }, bound ? `${fidelity}, ${bound}` : fidelity) : "";
    const place = line ? element("td", { class: "code soft" }, String(line)) : element("td", {});
    const row = element("tr", { class: this.faults.has(pc) ? "failed" : count || !counted ? "" : "never", title: this.faults.has(pc) ? "a finding names this instruction" : "", "data-line": line ? `${file}:${line}` : "" },
      element("td", { class: "number heat", style: this.heat(count, most) }, counted ? grouped(count) : ""), element("td", { class: "code soft" }, pc),
      element("td", { class: "code text" }, name, text), hasModelled ? element("td", {}, modelled) : null, hasLine ? place : null);
    if (line) row.addEventListener("click", () => this.mark(`${file}:${line}`));
    return row;
  }

  // The lines that instructions come from, of each file, with a few around them.
  source(program, rows) {
    const counts = new Map();
    for (const [, , , count, , , file, line] of rows) if (line) counts.set(`${file}:${line}`, (counts.get(`${file}:${line}`) ?? 0) + count);
    const most = Math.max(1, ...counts.values());
    const parts = program.files.map(([path, lines], file) => ({ path, lines, file, used: rows.filter((row) => row[6] === file && row[7]).map((row) => row[7]) }))
      .filter(({ lines, used }) => lines.length && used.length);
    if (!parts.length) return null;
    const body = parts.flatMap(({ path, lines, file, used }) => {
      const shown = [...new Set(used.flatMap((line) => [-3, -2, -1, 0, 1, 2, 3].map((by) => line + by)))]
        .filter((line) => line > 0 && line <= lines.length).sort((one, other) => one - other).slice(0, MOST_ROWS);
      const head = element("tr", {}, element("td", { class: "code soft file", colspan: "3" }, path));
      return [head, ...shown.flatMap((line, index) => {
        const text = lines[line - 1], key = `${file}:${line}`, count = counts.get(key);
        const gap = index && shown[index - 1] < line - 1 ? [element("tr", {}, element("td", {}), element("td", { class: "number soft" }, "⋯"), element("td", {}))] : [];
        const row = element("tr", { "data-line": key, class: count === 0 && program.counted ? "never" : "" }, element("td", { class: "number heat", style: this.heat(count ?? 0, most) }, count === undefined || !program.counted ? "" : grouped(count)),
          element("td", { class: "number soft code" }, String(line)), element("td", { class: "code text" }, text));
        if (count !== undefined) row.addEventListener("click", () => this.mark(key));
        return [...gap, row];
      })];
    });
    return this.table(["times", "line", "source"], body, `instructions by line, of ${parts.length === 1 ? "one file" : `${parts.length} files`}; click a line for its code`);
  }

  // Shows what belongs together: a line of source, and the instructions that come from it.
  mark(key) {
    const rows = [...this.listing.querySelectorAll("tr[data-line]")];
    for (const row of rows) row.classList.toggle("marked", row.dataset.line === key);
    for (const box of this.listing.querySelectorAll(".scroll")) {
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
