"use strict";
// The picture of all tracks: each column of pixels is looked up, never each event, so its cost does not grow with them.

const LABELS = 150, AXIS = 26, MOMENTS = 16, SPANS = 18, THIN = 4, LANE_GAP = 5, MOST_HEIGHT = 620;
const MOST_LANES = 8; // of the same kind, before they are drawn as thin lines until somebody opens them
// The colours of all pictures: the same in both themes, since each contrasts with a white and with a dark page.
const PALETTE = {
  kernel: "#3a74d6", "run-time kernel": "#6e7785", waves: "#0f8577", commands: "#885fcd", transfers: "#a6680f", registers: "#487b9a",
  other: "#79792a", finding: "#d93a3a", read: "#2d8050", written: "#b94b9a",
};
const CATEGORIES = ["kernel", "run-time kernel", "waves", "commands", "transfers", "registers", "other"]; // in the order of softcard.trace.timeline
const NAMES = {
  kernel: "kernels", "run-time kernel": "kernels of the run-time library", waves: "waves, instances", commands: "commands, packets", transfers: "transfers",
  registers: "registers, signals, interrupts", other: "other events", finding: "finding", read: "memory read", written: "memory written",
};
const AXES = { own: "steps of own kernels", steps: "guest steps", order: "events in order" };

class Timeline {
  constructor(canvas, trace) {
    this.canvas = canvas;
    this.trace = trace;
    this.chosen = -1;
    this.scroll = 0;
    this.opened = new Set();
    this.families = families(trace.tracks);
    this.layout();
    this.folded = foldedSteps(trace);
    const isFailedEarly = !this.folded && trace.arrays.category.includes(1); // no kernel of the program took a step
    this.setAxis(this.folded ? "own" : this.stepsSayMore() && !isFailedEarly ? "steps" : "order");
  }

  // The axes that differ for this trace.
  axes() { return this.folded ? ["own", "steps", "order"] : ["steps", "order"]; }
  unit() { return this.axis === "order" ? "event" : "step"; }

  // The positions on the axis of items that have a time and an order.
  positions(time, order) {
    if (this.axis === "order") return order;
    return this.axis === "steps" ? time : Float64Array.from(time, this.folded);
  }

  // Whether guest steps tell events apart at all: some devices do everything in one.
  stepsSayMore() {
    const { begin, size, time } = this.trace;
    const some = new Set();
    for (let index = 0; index < size && some.size < 16; index += Math.ceil(size / 4096)) some.add(begin[index]);
    return time > 0 && some.size > Math.min(8, size / 4);
  }

  setAxis(axis) {
    const { begin, end, first, last, time, count } = this.trace;
    this.axis = axis;
    [this.starts, this.ends] = [this.positions(begin, first), this.positions(end, last)];
    this.limit = axis === "order" ? count - 1 : axis === "steps" ? time : this.folded(time);
    this.limit = Math.max(this.limit, 1);
    this.fit();
  }

  fit() { this.from = -0.01 * this.limit; this.to = 1.01 * this.limit; }

  layout() {
    let y = 0, lane = "", last = "";
    this.rows = this.trace.tracks.map((track) => {
      const family = familyOf(track.lane), lanes = this.families.get(family);
      const many = lanes.length > MOST_LANES, thin = many && !this.opened.has(family);
      const starts = thin ? family !== last : track.lane !== lane;
      let label = track.lane;
      if (many && family !== last) label = thin ? `▸ ${family} (${lanes.length})` : `▾ ${track.lane}`;
      [lane, last] = [track.lane, family];
      y += starts ? LANE_GAP : 0;
      const row = { track, y, height: thin ? THIN : track.depth ? SPANS : MOMENTS, starts, label, thin };
      y += row.height;
      return row;
    });
    this.contentHeight = y + LANE_GAP;
    this.height = Math.min(this.contentHeight + AXIS, MOST_HEIGHT);
    this.canvas.style.height = `${this.height}px`;
  }

  // Opens or closes the lanes whose label is at a place of the canvas; whether there are any.
  toggleAt(x, y) {
    const inside = y - AXIS + this.scroll;
    const row = y < AXIS || x >= LABELS ? null : this.rows.find((each) => each.y <= inside && inside < each.y + each.height);
    return Boolean(row) && this.toggle([familyOf(row.track.lane)]);
  }

  toggleAll() {
    this.toggle([...this.families.keys()]);
  }

  toggle(names) {
    const large = names.filter((each) => this.families.get(each).length > MOST_LANES);
    const open = large.some((each) => !this.opened.has(each));
    for (const each of large) if (open) this.opened.add(each); else this.opened.delete(each);
    this.layout();
    this.scroll = Math.min(this.scroll, Math.max(this.contentHeight + AXIS - this.height, 0));
    return large.length > 0;
  }

  x(position) { return LABELS + (position - this.from) / (this.to - this.from) * this.span(); }
  position(x) { return this.from + (x - LABELS) / this.span() * (this.to - this.from); }
  span() { return Math.max(this.width - LABELS, 1); }

  show(from, to) {
    const least = Math.min(4 / this.span(), 0.02) * (this.axis === "order" ? this.span() / 8 : 60);
    const length = Math.min(Math.max(to - from, least), this.limit * 1.02);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - length / 2, -0.01 * this.limit), 1.01 * this.limit - length);
    this.to = this.from + length;
  }

  zoom(factor, around) {
    const length = (this.to - this.from) * factor, share = (around - this.from) / (this.to - this.from);
    this.show(around - length * share, around + length * (1 - share));
  }

  pan(share) {
    const length = this.to - this.from;
    this.show(this.from + share * length, this.to + share * length);
  }

  // Brings an event into the picture, without zooming more than is needed.
  reveal(event) {
    if (event < 0) return;
    const start = this.starts[event], end = this.ends[event];
    const length = this.to - this.from;
    if (end < this.from || start > this.to) this.show(start - length / 3, start + length * 2 / 3);
    const row = this.rows.find(({ track }) => track.from <= event && event < track.to);
    const visible = this.height - AXIS;
    if (row.y < this.scroll) this.scroll = row.y;
    if (row.y + row.height > this.scroll + visible) this.scroll = row.y + row.height - visible + LANE_GAP;
  }

  draw() {
    const ratio = window.devicePixelRatio || 1, canvas = this.canvas;
    this.width = canvas.clientWidth;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    pen.textBaseline = "middle";
    this.colours = colours();
    this.drawAxis(pen);
    pen.save();
    pen.beginPath();
    pen.rect(0, AXIS, this.width, this.height - AXIS);
    pen.clip();
    pen.translate(0, AXIS - this.scroll);
    let stripe = false;
    for (const row of this.rows) {
      if (row.starts) stripe = !stripe;
      if (row.y + row.height < this.scroll || row.y > this.scroll + this.height) continue;
      if (stripe) {
        pen.fillStyle = this.colours.stripe;
        pen.fillRect(0, row.y - (row.starts ? LANE_GAP / 2 : 0), this.width, row.height + LANE_GAP);
      }
      this.drawTrack(pen, row);
      if (row.starts) this.drawLabel(pen, row);
    }
    pen.restore();
    pen.fillStyle = this.colours.line;
    pen.fillRect(LABELS - 1, 0, 1, this.height);
    this.drawChosen(pen);
  }

  drawLabel(pen, row) {
    pen.fillStyle = this.colours.text;
    pen.fillText(shorten(pen, row.label, LABELS - 22), 14, row.y + (row.thin ? SPANS : row.height) / 2);
  }

  drawAxis(pen) {
    pen.fillStyle = this.colours.soft;
    pen.fillText(AXES[this.axis], 14, AXIS / 2);
    const step = ticks((this.to - this.from) / (this.span() / 110));
    for (let at = Math.ceil(Math.max(this.from, 0) / step) * step; at <= Math.min(this.to, this.limit); at += step) {
      const x = Math.round(this.x(at));
      pen.fillStyle = this.colours.line;
      pen.fillRect(x, AXIS - 5, 1, this.height);
      pen.fillStyle = this.colours.soft;
      if (x + 60 < this.width) pen.fillText(grouped(at), x + 4, AXIS / 2);
    }
    pen.fillStyle = this.colours.line;
    pen.fillRect(0, AXIS - 1, this.width, 1);
  }

  // Draws what is wide enough by itself, and all that shares a column of pixels as one stroke.
  drawTrack(pen, row) {
    const { trace, starts, ends } = this, { from, to, depth } = row.track;
    const scale = this.span() / (this.to - this.from), y = row.y + !row.thin, height = row.height - (row.thin ? 1 : 2);
    let event = lower(ends, from, to, this.from);
    while (event < to && starts[event] <= this.to) {
      const x = this.x(starts[event]), width = (ends[event] - starts[event]) * scale;
      let next = event + 1;
      if (depth && width >= 2) {
        this.drawSpan(pen, event, Math.max(x, LABELS), y, Math.min(x + width, this.width) - Math.max(x, LABELS), height);
      } else {
        const column = Math.floor(x);
        next = Math.max(next, lower(starts, event, to, this.position(column + 1)));
        if (depth && ends[next - 1] > this.position(column + 3)) next = Math.max(next - 1, event + 1);
        this.drawColumn(pen, event, next, Math.max(column, LABELS), y, height, depth);
      }
      event = next;
    }
  }

  drawSpan(pen, event, x, y, width, height) {
    const { trace } = this, gap = width > 4 ? 1 : 0;
    pen.globalAlpha = trace.hits && !trace.hits[event] ? 0.18 : 1;
    pen.fillStyle = this.fill(event);
    pen.fillRect(x, y, width - gap, height);
    if (width > 28 && height > THIN) {
      pen.fillStyle = "#ffffff";
      pen.fillText(shorten(pen, trace.name(event), width - 8), x + 4, y + height / 2 + 0.5);
    }
    pen.globalAlpha = 1;
  }

  drawColumn(pen, event, next, x, y, height, depth) {
    const { trace } = this, bad = trace.badBefore[next] > trace.badBefore[event];
    const hit = !trace.hits || trace.hitsBefore[next] > trace.hitsBefore[event];
    const share = Math.min(1, 0.75 + Math.log2(next - event) / 12);
    const tall = depth || height < THIN ? height : Math.max(5, height * (0.45 + share * 0.55));
    pen.globalAlpha = hit ? share : 0.15;
    pen.fillStyle = bad ? PALETTE.finding : this.fill(event);
    pen.fillRect(x, y + (height - tall) / 2, depth ? 1.5 : 2, bad ? height : tall);
    pen.globalAlpha = 1;
  }

  fill(event) {
    return this.trace.arrays.marks[event] ? PALETTE.finding : PALETTE[CATEGORIES[this.trace.arrays.category[event]]];
  }

  drawChosen(pen) {
    if (this.chosen < 0) return;
    const row = this.rows.find(({ track }) => track.from <= this.chosen && this.chosen < track.to);
    const x = Math.round(this.x(this.starts[this.chosen])), y = AXIS + row.y - this.scroll;
    if (x < LABELS) return;
    pen.fillStyle = this.colours.accent;
    pen.fillRect(x, AXIS, 1, this.height);
    if (y < AXIS - row.height || y > this.height) return;
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 2;
    pen.strokeRect(x - 2, y, Math.max(this.x(this.ends[this.chosen]) - x, 4) + 2, row.height);
  }

  // The event at a place of the canvas, -1 for none: what lies there, or the nearest moment within a few pixels.
  at(x, y) {
    const inside = y - AXIS + this.scroll;
    const row = y < AXIS ? null : this.rows.find((each) => each.y <= inside && inside < each.y + each.height);
    if (!row || x < LABELS) return -1;
    const { from, to } = row.track, position = this.position(x), near = 5 / this.span() * (this.to - this.from);
    const next = lower(this.ends, from, to, position);
    let best = -1, distance = near;
    for (const event of [next - 1, next]) {
      if (event < from || event >= to) continue;
      const away = Math.max(this.starts[event] - position, position - this.ends[event], 0);
      if (away < distance || (away === 0 && best < 0)) { best = event; distance = away; }
    }
    return best;
  }

  // The event of a lane's row further up or down that is nearest to the chosen one.
  beside(event, step) {
    const number = this.rows.findIndex(({ track }) => track.from <= event && event < track.to) + step;
    if (number < 0 || number >= this.rows.length) return event;
    const { from, to } = this.rows[number].track;
    return Math.min(lower(this.starts, from, to, this.starts[event]), to - 1);
  }
}

// The lanes of each kind of which there may be many: "queue 0 wave", "hart".
function families(tracks) {
  const found = new Map();
  for (const { lane } of tracks) {
    const lanes = found.get(familyOf(lane)) ?? [];
    if (lanes.at(-1) !== lane) lanes.push(lane);
    found.set(familyOf(lane), lanes);
  }
  return found;
}

function familyOf(lane) { return lane.replace(/ \d+$/, ""); }

// Returns a function from a step to its position if kernels of the run-time library take no time unless
// another kernel runs; null if there are none.
function foldedSteps(trace) {
  const { begin, end, arrays: { category } } = trace, of = (wanted) => joined(trace.tracks.flatMap(({ depth, from, to }) => {
    const found = [];
    for (let event = from; depth && event < to; event++) if (category[event] === wanted && end[event] > begin[event]) found.push([begin[event], end[event]]);
    return found;
  }));
  const own = of(0), folds = [];
  for (const [from, to] of own.length ? of(1) : []) {
    let at = from;
    for (const [start, stop] of own) {
      if (stop <= at || start >= to) continue;
      if (start > at) folds.push([at, start]);
      at = Math.max(at, stop);
    }
    if (at < to) folds.push([at, to]);
  }
  if (!folds.length) return null;
  const stops = folds.map(([, stop]) => stop), before = [0];
  for (const [from, to] of folds) before.push(before.at(-1) + to - from);
  return (step) => {
    const index = lower(stops, 0, stops.length, step); // the folds before it end earlier
    return step - before[index] - (index < folds.length ? Math.max(0, step - folds[index][0]) : 0);
  };
}

// Merges ranges into sorted ones that do not overlap.
function joined(ranges) {
  const found = [];
  for (const [from, to] of ranges.sort(([one], [other]) => one - other)) {
    const last = found.at(-1);
    if (last && from <= last[1]) last[1] = Math.max(last[1], to); else found.push([from, to]);
  }
  return found;
}

function colours() {
  // Canvas takes no light-dark(): a probe has the browser work it out.
  const probe = document.createElement("i");
  document.body.append(probe);
  const get = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
  const found = Object.fromEntries(["text", "soft", "line", "stripe", "accent"].map((each) => [each, get(each)]));
  probe.remove();
  return found;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function shorten(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = text.length;
  while (length > 1 && pen.measureText(text.slice(0, length) + "…").width > width) length = Math.floor(length * 0.9);
  return length > 1 ? text.slice(0, length) + "…" : "";
}

// The smallest of 1, 2, 5, 10, … that is at least `least`, and no fraction.
function ticks(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least);
}

function grouped(number) { return number.toLocaleString("en").replaceAll(",", "\u202f"); }
