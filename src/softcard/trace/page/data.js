"use strict";
// The trace as columns (see softcard.trace.timeline): unpacked, and asked for single events.

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f8: Float64Array };

async function unpack(base64) {
  const packed = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const buffer = await new Response(stream).arrayBuffer();
  const length = new DataView(buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  const arrays = {};
  for (const [name, [kind, at, count]] of Object.entries(about.arrays)) {
    arrays[name] = new ARRAYS[kind](buffer, 4 + length + at, count);
  }
  return { ...about, arrays };
}

class Trace {
  constructor(data) {
    Object.assign(this, data);
    const { begin, end, first, last, marks } = this.arrays;
    this.begin = begin; this.end = end; this.first = first; this.last = last;
    this.size = begin.length;
    this.badBefore = before(marks);
    this.hits = null;
    this.hitsBefore = null;
    this.tracks = this.tracks.map(([lane, depth, from, to], number) => ({ lane, depth, from, to, number }));
  }

  name(event) { return this.names[this.arrays.name[event]]; }
  kind(event) { return this.kinds[this.arrays.kind[event]]; }
  track(event) { return this.tracks.find(({ from, to }) => from <= event && event < to); }
  // Whether it is a moment, not something that lasts.
  isMoment(event) { return this.first[event] === this.last[event]; }

  fields(event) {
    const row = this.arrays.row[event];
    return this.tables[this.arrays.kind[event]]
      .map((column) => [column.name, this.cell(column, row)])
      .filter(([, text]) => text !== "");
  }

  cell(column, row) {
    const value = this.arrays[column.array][row];
    if (column.texts) return column.texts[value];
    return column.hex ? "0x" + value.toString(16) : String(value);
  }

  // Marks the events whose name, kind or fields hold the text; gives how many there are.
  search(text) {
    const wanted = text.trim().toLowerCase();
    this.hits = this.hitsBefore = null;
    if (!wanted) return 0;
    const has = (each) => String(each).toLowerCase().includes(wanted);
    const names = this.names.map(has);
    const kinds = this.kinds.map(has);
    const rows = this.tables.map((columns, kind) => this.rowsWith(columns, kind, has, wanted));
    const { kind, name, row } = this.arrays;
    const hits = new Uint8Array(this.size);
    let count = 0;
    for (let event = 0; event < this.size; event++) {
      if (names[name[event]] || kinds[kind[event]] || rows[kind[event]]?.[row[event]]) { hits[event] = 1; count++; }
    }
    this.hits = hits;
    this.hitsBefore = before(hits);
    return count;
  }

  rowsWith(columns, kind, has, wanted) {
    const number = /^(0x)?[0-9a-f]+$/.test(wanted) ? Number(wanted) : NaN;
    let found = null;
    for (const column of columns) {
      const values = this.arrays[column.array];
      const texts = column.texts?.map(has);
      if (texts ? !texts.includes(true) : Number.isNaN(number)) continue;
      found ??= new Uint8Array(values.length);
      for (let row = 0; row < values.length; row++) if (texts ? texts[values[row]] : values[row] === number) found[row] = 1;
    }
    return found;
  }
}

// How many marks lie before each event.
function before(marks) {
  const sums = new Uint32Array(marks.length + 1);
  for (let index = 0; index < marks.length; index++) sums[index + 1] = sums[index] + marks[index];
  return sums;
}

// The first of [from, to) whose value is at least `wanted`; values grow.
function lower(values, from, to, wanted) {
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (values[middle] < wanted) from = middle + 1; else to = middle;
  }
  return from;
}
