"use strict";
// Puts the page together, and hears mouse and keyboard.

const get = (id) => document.getElementById(id);

class Page {
  constructor(trace) {
    this.trace = trace;
    this.timeline = new Timeline(get("timeline"), trace);
    this.strips = new Strips(trace, this.timeline, (pointer, text) => this.say(pointer, text ? [text] : null));
    this.registers = new Registers(trace);
    const problems = trace.findingCount ? `, ${grouped(trace.findingCount)} finding${trace.findingCount > 1 ? "s" : ""}` : "";
    get("summary").textContent = `${grouped(trace.count)} events in ${grouped(trace.time)} guest steps${problems} · Softcard ${trace.version}`;
    get("axis").textContent = this.axisName();
    this.showLegend();
    showOperations(trace);
    showPlaces(trace);
    showOpcodes(trace);
    this.snapshots = new Snapshots(trace, (event) => this.choose(event));
    this.code = new Code(trace);
    this.findings = new FindingsPane(trace, this.registers, (event, index) => this.choose(event, index));
    const first = Math.max(0, trace.findings.findIndex(({ diagnostic }) => diagnostic.level === "error"));
    this.choose(trace.findings[first]?.event ?? -1, trace.findings.length ? first : undefined);
    this.listen();
  }

  axisName() { return `Axis: ${AXES[this.timeline.axis]}`; }

  // The legend of the colours that occur in the pictures.
  showLegend() {
    const { arrays: { category, marks, memoryWhat } } = this.trace, used = new Set();
    for (const each of category) used.add(CATEGORIES[each]);
    if (marks.includes(1)) used.add("finding");
    for (const each of memoryWhat) if (each) used.add(each === 1 ? "read" : "written");
    get("legend").replaceChildren(...Object.keys(PALETTE).filter((each) => used.has(each)).map((each) =>
      element("span", {}, element("i", { style: `background: ${PALETTE[each]}` }), NAMES[each])));
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.drawNow();
    });
  }

  drawNow() { this.timeline.draw(); this.strips.draw(); }

  choose(event, index) {
    this.timeline.chosen = event;
    this.timeline.reveal(event);
    showDetail(this.trace, event);
    this.findings.show(event, index);
    this.registers.show(event < 0 ? this.trace.count - 1 : this.trace.last[event], (other) => this.choose(other));
    this.draw();
  }

  step(by) {
    const { chosen } = this.timeline;
    const track = chosen < 0 ? this.trace.tracks[0] : this.trace.track(chosen);
    if (track) this.choose(chosen < 0 ? track.from : Math.min(Math.max(chosen + by, track.from), track.to - 1));
  }

  finding(by) {
    const { findings } = this.trace, count = findings.length;
    if (!count) return;
    const { shown } = this.findings, isChosen = findings[shown]?.events.includes(this.timeline.chosen);
    const index = isChosen ? (shown + by + count) % count : by > 0 ? 0 : count - 1;
    this.choose(findings[index].event, index);
  }

  hit(by) {
    const { hits, first, size } = this.trace;
    if (!hits) return;
    this.order ??= Uint32Array.from({ length: size }, (_, event) => event).sort((one, other) => first[one] - first[other]);
    const { order } = this, chosen = this.timeline.chosen;
    const now = chosen < 0 ? (by > 0 ? -1 : size) : order.indexOf(chosen);
    for (let tried = 1; tried <= size; tried++) {
      const event = order[((now + by * tried) % size + size) % size];
      if (hits[event]) { this.choose(event); return; }
    }
  }

  zoomToChosen() {
    const { timeline } = this, event = timeline.chosen;
    if (event < 0) return;
    const length = timeline.ends[event] - timeline.starts[event] || (timeline.to - timeline.from) / 20;
    timeline.show(timeline.starts[event] - length * 0.1, timeline.starts[event] + length * 1.1);
  }

  switchAxis() {
    const axes = this.timeline.axes();
    this.timeline.setAxis(axes[(axes.indexOf(this.timeline.axis) + 1) % axes.length]);
    get("axis").textContent = this.axisName();
  }

  search() {
    const count = this.trace.search(get("search").value);
    get("hits").textContent = this.trace.hits ? `${grouped(count)} hit${count === 1 ? "" : "s"}` : "";
    this.draw();
  }

  switchTheme() {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    this.draw();
  }

  middle() {
    const { timeline } = this, chosen = timeline.chosen < 0 ? NaN : timeline.starts[timeline.chosen];
    return chosen >= timeline.from && chosen <= timeline.to ? chosen : (timeline.from + timeline.to) / 2;
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || get("keys").open) return;
    if (event.target === get("search")) {
      if (event.key === "Enter") this.hit(event.shiftKey ? -1 : 1);
      if (event.key === "Escape") get("timeline").focus();
      return;
    }
    if (event.target.closest(".scroll") && event.key.startsWith("Arrow")) return;
    const { timeline } = this;
    const actions = {
      ArrowLeft: () => timeline.pan(-0.15), ArrowRight: () => timeline.pan(0.15),
      "+": () => timeline.zoom(0.6, this.middle()), "=": () => timeline.zoom(0.6, this.middle()),
      "-": () => timeline.zoom(1 / 0.6, this.middle()), 0: () => timeline.fit(), z: () => this.zoomToChosen(),
      n: () => this.step(1), p: () => this.step(-1), f: () => this.finding(1), F: () => this.finding(-1),
      x: () => this.switchAxis(), l: () => timeline.toggleAll(), t: () => this.switchTheme(), Escape: () => this.choose(-1),
      "/": () => get("search").focus(), "?": () => get("keys").showModal(),
    };
    if (event.target === get("timeline")) {
      actions.ArrowUp = () => this.choose(timeline.beside(timeline.chosen, -1));
      actions.ArrowDown = () => this.choose(timeline.beside(timeline.chosen, 1));
    }
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
    this.draw();
  }

  listen() {
    const { timeline } = this, canvas = timeline.canvas;
    let drag = null;
    const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("wheel", (event) => {
      const [x] = place(event);
      if (event.ctrlKey || event.metaKey) timeline.zoom(Math.exp(event.deltaY * 0.0025), timeline.position(Math.max(x, LABELS)));
      else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) timeline.pan((event.deltaX || event.deltaY) / timeline.span());
      else if (timeline.contentHeight + AXIS > timeline.height) this.scrollBy(event);
      else return;
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.deltaX) event.preventDefault();
      this.draw();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      drag = { x: event.clientX, from: timeline.from, to: timeline.to, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!drag) { this.tip(event, timeline.at(...place(event))); return; }
      const away = event.clientX - drag.x;
      drag.moved ||= Math.abs(away) > 3;
      const shift = away / timeline.span() * (drag.to - drag.from);
      if (drag.moved) { timeline.show(drag.from - shift, drag.to - shift); this.draw(); }
    });
    canvas.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) {
        if (timeline.toggleAt(...place(event))) this.draw();
        else this.choose(timeline.at(...place(event)));
      }
      drag = null;
    });
    canvas.addEventListener("pointerleave", () => this.tip(null, -1));
    document.addEventListener("keydown", (event) => this.key(event));
    get("search").addEventListener("input", () => this.search());
    get("axis").addEventListener("click", () => { this.switchAxis(); this.draw(); });
    get("fit").addEventListener("click", () => { timeline.fit(); this.draw(); });
    get("theme").addEventListener("click", () => this.switchTheme());
    get("help").addEventListener("click", () => get("keys").showModal());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  scrollBy(event) {
    const { timeline } = this, most = timeline.contentHeight + AXIS - timeline.height;
    const before = timeline.scroll;
    timeline.scroll = Math.min(Math.max(before + event.deltaY, 0), most);
    if (timeline.scroll !== before) event.preventDefault();
  }

  tip(pointer, event) {
    this.say(pointer, event < 0 ? null : tipText(this.trace, event));
  }

  say(pointer, parts) {
    const tip = get("tip");
    tip.hidden = !parts;
    if (!parts) return;
    tip.replaceChildren(...parts);
    tip.style.left = `${Math.min(pointer.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${Math.min(pointer.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
  }
}

(async () => {
  try {
    const data = get("data");
    const trace = new Trace(await unpack(data.textContent));
    data.remove();
    const page = new Page(trace);
    page.drawNow();
    document.documentElement.dataset.ready = performance.now().toFixed(0); // milliseconds to the first picture
    globalThis.page = page;
  } catch (error) {
    get("summary").textContent = `This page cannot be shown: ${error.message}`;
    document.documentElement.dataset.failed = error.stack;
  }
})();
