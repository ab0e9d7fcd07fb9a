// Texts of the data go into the page as text only: nothing here writes HTML.
{
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 240, LEFT = 56, RIGHT = 12, TOP = 8, BOTTOM = 34;
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const hidden = new Set();
  let axis = "step";

  function made(parent, name, attributes = {}, text = "") {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }

  function ticks(low, high, count, whole = false) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const sizes = [1, 2, 5, 10].map((factor) => factor * power);
    const step = sizes.find((size) => size >= rough && (!whole || size >= 1)) ?? 1;
    const found = [];
    for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step);
    return found;
  }

  function short(value) {
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6)) return value.toExponential(1);
    return String(Number(value.toPrecision(4)));
  }

  function place(value) {
    if (axis === "step") return `step ${Math.round(value)}`;
    return value < 120 ? `${value.toFixed(1)} s` : `${(value / 60).toFixed(1)} min`;
  }

  /** The running mean of a long curve, over a fiftieth of it: single steps scatter too much to be compared. */
  function smoothed(points) {
    const reach = points.length > 100 ? Math.round(points.length / 100) : 0;
    return points.map((point, at) => {
      const near = points.slice(Math.max(0, at - reach), at + reach + 1);
      return { x: point.x, y: near.reduce((sum, other) => sum + other.y, 0) / near.length };
    });
  }

  class Chart {
    constructor(curve, parent) {
      this.curve = curve;
      this.figure = document.createElement("figure");
      const title = document.createElement("h3");
      title.textContent = curve.metric;
      this.svg = made(this.figure, "svg", { tabindex: 0, role: "img" });
      this.svg.before(title);
      this.readout = document.createElement("output");
      this.readout.className = "readout";
      this.readout.setAttribute("aria-live", "polite");
      this.figure.append(this.readout);
      parent.append(this.figure);
      this.svg.addEventListener("pointermove", (event) => this.point(event));
      this.svg.addEventListener("pointerdown", (event) => this.point(event));
      this.svg.addEventListener("pointerleave", () => this.read(null));
      this.svg.addEventListener("blur", () => this.read(null));
      this.svg.addEventListener("keydown", (event) => this.key(event));
    }

    draw() {
      const width = Math.max(240, this.figure.clientWidth);
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
      this.lines = this.curve.points.map((points, run) => {
        const raw = this.seen(run) ? points.map(this.at) : [];
        return { run, raw, points: smoothed(raw) };
      });
      const all = this.lines.flatMap((line) => line.raw);
      this.svg.setAttribute("aria-label", `${this.curve.metric} over ${axis === "step" ? "steps" : "time"}`);
      this.places = [...new Set(all.map((point) => point.x))].sort((one, other) => one - other);
      this.read(null);
      if (!all.length) return;
      let [bottom, top] = [Math.min(...all.map((p) => p.y)), Math.max(...all.map((p) => p.y))];
      let [begin, end] = [this.places[0], this.places.at(-1)];
      if (top === bottom) [bottom, top] = [bottom - (Math.abs(bottom) || 1) * 0.1, top + (Math.abs(top) || 1) * 0.1];
      if (end === begin) [begin, end] = [begin - 0.5, end + 0.5];
      this.scale = { begin, end, width: width - LEFT - RIGHT };
      this.x = (value) => LEFT + ((value - begin) / (end - begin)) * this.scale.width;
      this.y = (value) => TOP + ((top - value) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
      for (const value of ticks(bottom, top, 5)) {
        made(this.svg, "path", { class: "axis", d: `M${LEFT} ${this.y(value)}H${width - RIGHT}` });
        made(this.svg, "text", { x: LEFT - 6, y: this.y(value) + 4, "text-anchor": "end" }, short(value));
      }
      for (const value of ticks(begin, end, width / 110, axis === "step")) {
        made(this.svg, "text", { x: this.x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, short(value));
      }
      const unit = axis === "step" ? "step" : "seconds since its first point";
      made(this.svg, "text", { x: width - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, unit);
      for (const { run, raw } of this.lines) if (raw.length > 100) this.line(run, raw, "raw");
      for (const { run, points } of this.lines) this.line(run, points, "curve");
      this.cursor = made(this.svg, "g");
    }

    line(run, points, kind) {
      if (!points.length) return;
      const path = points.map((point) => `${this.x(point.x).toFixed(1)} ${this.y(point.y).toFixed(1)}`).join("L");
      const { colour, dash } = data.runs[run];
      made(this.svg, "path", { class: `${kind} run-${colour} dash-${dash}`, d: `M${path}`, "data-run": run });
      if (points.length > 12) return;
      for (const point of points) this.dot(this.svg, run, point);
    }

    dot(parent, run, point) {
      const colour = data.runs[run].colour;
      made(parent, "circle", { class: `dot run-${colour}`, cx: this.x(point.x), cy: this.y(point.y), r: 4 });
    }

    seen(run) {
      return !hidden.has(run) && !(axis === "time" && data.runs[run].cached);
    }

    at([step, seconds, value]) {
      return { x: axis === "step" ? step : seconds, y: value };
    }

    point(event) {
      if (!this.places.length) return;
      const box = this.svg.getBoundingClientRect();
      const inside = ((event.clientX - box.left) / box.width) * this.svg.viewBox.baseVal.width - LEFT;
      this.read(this.scale.begin + (inside / this.scale.width) * (this.scale.end - this.scale.begin));
    }

    key(event) {
      const last = this.places.length - 1;
      const now = this.places.findIndex((place) => place >= this.value);
      // One press goes on by a fiftieth of a long curve, so that its end is within reach.
      const step = Math.max(1, Math.round(last / 50));
      const next = { ArrowRight: now + step, ArrowLeft: now - step, Home: 0, End: last }[event.key];
      if (event.key === "Escape") this.read(null);
      if (next === undefined || last < 0) return;
      event.preventDefault();
      this.read(this.places[this.value === null ? 0 : Math.min(last, Math.max(0, next))]);
    }

    /** Tells what each curve is at the place nearest to `value`; nothing for null. */
    read(value) {
      this.value = null;
      this.readout.replaceChildren();
      this.cursor?.replaceChildren();
      if (value === null || !this.places?.length) {
        this.note();
        return;
      }
      const nearest = (points) => points.reduce((a, b) => (Math.abs(b.x - value) < Math.abs(a.x - value) ? b : a));
      this.value = nearest(this.places.map((x) => ({ x }))).x;
      made(this.cursor, "path", { class: "cursor", d: `M${this.x(this.value)} ${TOP}V${HEIGHT - BOTTOM}` });
      this.readout.append(place(this.value));
      for (const { run, points } of this.lines) {
        if (!points.length) continue;
        const point = nearest(points);
        this.dot(this.cursor, run, point);
        const badge = document.createElement("span");
        badge.className = `badge run-${data.runs[run].colour}`;
        badge.textContent = data.runs[run].letter;
        // A run that ended before is told as such, and not as if it had gone on.
        const ended = this.value > points.at(-1).x || this.value < points[0].x;
        this.readout.append(badge, short(point.y) + (ended ? ` (${place(point.x)})` : ""));
      }
    }

    note() {
      const cached = data.runs.filter((run, at) => run.cached && !hidden.has(at) && this.curve.points[at].length);
      if (axis !== "time" || !cached.length) return;
      const names = cached.map((run) => run.letter).join(", ");
      this.readout.append(`${names}: the training came from the cache, so its times are not recorded.`);
    }
  }

  const parent = document.getElementById("charts");
  const charts = parent ? data.curves.map((curve) => new Chart(curve, parent)) : [];
  const draw = () => charts.forEach((chart) => chart.draw());
  draw();
  if (parent) {
    let width = parent.clientWidth;
    new ResizeObserver(() => {
      if (parent.clientWidth === width) return;
      width = parent.clientWidth;
      draw();
    }).observe(parent);
  }

  for (const button of document.querySelectorAll("#legend button")) {
    button.addEventListener("click", () => {
      const run = Number(button.dataset.run);
      if (!hidden.delete(run)) hidden.add(run);
      button.setAttribute("aria-pressed", String(!hidden.has(run)));
      draw();
    });
  }
  for (const choice of document.querySelectorAll("input[name=axis]")) {
    choice.addEventListener("change", () => {
      axis = choice.value;
      draw();
    });
  }

  document.getElementById("slice-metric")?.addEventListener("change", (event) => {
    for (const table of document.querySelectorAll(".slice-table")) table.hidden = table.dataset.metric !== event.target.value;
  });
}
