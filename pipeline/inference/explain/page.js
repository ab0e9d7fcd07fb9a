// Texts of the data go into the page as text only: nothing here writes HTML.
(async () => {
  const SVG = "http://www.w3.org/2000/svg";
  const LINES = 12; // at most, from one token
  const FAINT = 0.1; // weights below this share of the row's largest are no lines
  const SMALL = 72; // pixels of a small map
  const LABEL = 14, LONGEST = 12; // of a token beside the map: pixels from one to the next, and its characters
  const data = JSON.parse(document.getElementById("page-data").textContent);
  if (!data.maps.length) return;
  const at = (id) => document.getElementById(id);
  const [map, readout, looking, lookedAt, strands] = ["map", "readout", "looking", "looked-at", "strands"].map(at);

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  function made(parent, name, text = "") {
    const element = document.createElement(name);
    if (text) element.textContent = text;
    parent.append(element);
    return element;
  }

  /**
   * One map: who attends to whom, and how much. The bytes are square roots of shares of its largest weight, which is also how
   * strong a colour is: among many tokens all weights are small.
   */
  class Head {
    constructor(stack, layer, number, largest, bytes) {
      Object.assign(this, { stack, layer, number, largest, bytes });
      [this.rows, this.columns] = [stack.looking.length, stack.looked_at.length];
    }

    get title() {
      if (this.stack.name === "rollout" || this.stack.name === "alignment") return this.stack.title;
      return `${this.stack.title}: layer ${this.layer + 1}, head ${this.number + 1}`;
    }

    get short() {
      return this.stack.name === "rollout" || this.stack.name === "alignment" ? "all" : `L${this.layer + 1} H${this.number + 1}`;
    }

    weight(row, column) {
      return this.largest * (this.bytes[row * this.columns + column] / 255) ** 2;
    }

    /** Where there are more weights than pixels, a pixel shows the largest of its own, or else few would be seen. */
    draw(canvas, most = Infinity) {
      const [width, height] = [Math.min(this.columns, most), Math.min(this.rows, most)];
      const [red, green, blue] = getComputedStyle(document.documentElement).getPropertyValue("--for").split(",").map(Number);
      [canvas.width, canvas.height] = [width, height];
      const image = new ImageData(width, height);
      for (let pixel = 0; pixel < image.data.length; pixel += 4) image.data.set([red, green, blue], pixel);
      for (let row = 0, place = 0; row < this.rows; row++) {
        const line = width * Math.floor((row * height) / this.rows);
        for (let column = 0; column < this.columns; column++, place++) {
          const alpha = 4 * (line + Math.floor((column * width) / this.columns)) + 3;
          if (this.bytes[place] > image.data[alpha]) image.data[alpha] = this.bytes[place];
        }
      }
      canvas.getContext("2d").putImageData(image, 0, 0);
    }

    /** Columns that a row attends to, the most first. */
    ranked(row) {
      const columns = [...Array(this.columns).keys()];
      return columns.sort((one, other) => this.weight(row, other) - this.weight(row, one));
    }
  }

  const bytes = await unpacked(data.weights);
  let taken = 0;
  const heads = data.maps.map((stack) => stack.heads.map((numbers, layer) => numbers.map((number, place) => {
    const size = stack.looking.length * stack.looked_at.length;
    taken += size;
    return new Head(stack, layer, number, stack.largest[layer][place], bytes.subarray(taken - size, taken));
  })));

  const cells = []; // of all grids: button, canvas, head
  let chosen = null, row = 0, column = 0;

  /** Shows a head closely. */
  function choose(cell) {
    for (const other of cells) other.button.setAttribute("aria-pressed", String(other === cell));
    const before = chosen;
    chosen = cell.head;
    at("map-title").textContent = `Closely: ${chosen.title}`;
    chosen.draw(map);
    map.style.aspectRatio = `${chosen.columns} / ${chosen.rows}`;
    if (before?.stack !== chosen.stack) {
      looking.replaceChildren();
      lookedAt.replaceChildren();
      chosen.stack.looking.forEach((token) => made(looking, "li", token));
      chosen.stack.looked_at.forEach((token) => made(lookedAt, "li", token));
      [row, column] = [0, chosen.ranked(0)[0]];
    }
    point(row, column, false);
  }

  /** Tells of one token what it attends to. */
  function point(newRow, newColumn, follow) {
    [row, column] = [newRow, newColumn];
    const { looking: from, looked_at: to } = chosen.stack;
    const most = chosen.ranked(row).slice(0, 4).map((other) => `${to[other]} ${shown(other)}`);
    readout.textContent = `${from[row]} attends to ${to[column]}: ${shown(column)}. Most: ${most.join(", ")}`;
    for (const list of [looking, lookedAt]) list.querySelector(".chosen")?.classList.remove("chosen");
    looking.children[row].classList.add("chosen");
    lookedAt.children[column].classList.add("chosen");
    [...lookedAt.children].forEach((item, place) => item.style.setProperty("--share", share(place)));
    if (follow) {
      const box = at("lines"), item = looking.children[row];
      box.scrollTop = item.offsetTop - box.clientHeight / 2;
    }
    drawStrands();
    drawCross();
    drawAxes();
  }

  function shown(other) {
    const weight = chosen.weight(row, other);
    return weight.toFixed(weight < 0.1 ? 3 : 2);
  }

  /** How strong a weight of the row is drawn, against the row's largest. */
  function share(other) {
    const bytes = chosen.bytes.subarray(row * chosen.columns, (row + 1) * chosen.columns);
    return (bytes[other] / Math.max(1, ...bytes)).toFixed(3); // they are square roots already
  }

  function drawStrands() {
    const height = looking.children[0].getBoundingClientRect().height;
    const most = Math.max(chosen.rows, chosen.columns);
    const width = Math.max(40, strands.getBoundingClientRect().width);
    strands.setAttribute("viewBox", `0 0 ${width} ${most * height}`);
    strands.style.height = `${most * height}px`;
    strands.replaceChildren();
    const begin = (row + 0.5) * height;
    const ranked = chosen.ranked(row);
    const strong = ranked.slice(0, LINES).filter((other) => chosen.weight(row, other) >= FAINT * chosen.weight(row, ranked[0]));
    for (const other of new Set([...strong, column])) {
      const end = (other + 0.5) * height;
      const line = document.createElementNS(SVG, "path");
      line.setAttribute("d", `M0 ${begin}C${width / 2} ${begin} ${width / 2} ${end} ${width} ${end}`);
      line.setAttribute("stroke-opacity", Math.max(0.1, share(other)));
      strands.append(line);
    }
  }

  /** Frames the row and the column that are read, in the map. */
  function drawCross() {
    Object.assign(at("map-row").style, { top: `${(100 * row) / chosen.rows}%`, height: `${100 / chosen.rows}%` });
    Object.assign(at("map-column").style, { left: `${(100 * column) / chosen.columns}%`, width: `${100 / chosen.columns}%` });
  }

  /** The tokens along both sides of the map: all that have room, and always those of the row and column that are read. */
  function drawAxes() {
    const { looking: from, looked_at: to } = chosen.stack;
    axis(at("map-rows"), from, map.clientHeight, row, (place) => ({ x: "100%", y: place }), 0);
    axis(at("map-columns"), to, map.clientWidth, column, (place) => ({ x: place, y: "100%" }), -90);
  }

  function axis(parent, tokens, room, read, where, turn) {
    parent.replaceChildren();
    const every = Math.max(1, Math.ceil((tokens.length * LABEL) / Math.max(LABEL, room)));
    const label = (place, kind) => {
      // Places are percents; a text is turned about its own, which only a picture in the picture has.
      const spot = document.createElementNS(SVG, "svg");
      const at = where(`${(100 * (place + 0.5)) / tokens.length}%`);
      for (const [name, value] of Object.entries({ ...at, overflow: "visible" })) spot.setAttribute(name, value);
      const text = document.createElementNS(SVG, "text");
      text.setAttribute("transform", `rotate(${turn})`);
      text.setAttribute("text-anchor", turn ? "start" : "end");
      text.setAttribute("x", turn ? 5 : -2);
      text.setAttribute("class", kind);
      const token = tokens[place];
      text.textContent = token.length > LONGEST ? `${token.slice(0, LONGEST - 1)}…` : token;
      spot.append(text);
      parent.append(spot);
    };
    for (let place = 0; place < tokens.length; place += every) if (place !== read) label(place, "");
    label(read, "chosen");
  }

  function within(value, count) {
    return Math.min(count - 1, Math.max(0, value));
  }

  function underPointer(event) {
    const box = map.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    point(within(Math.floor(y * chosen.rows), chosen.rows), within(Math.floor(x * chosen.columns), chosen.columns), true);
  }
  for (const kind of ["pointermove", "pointerdown"]) map.addEventListener(kind, underPointer);
  map.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (event.key === "Escape") cells.find((cell) => cell.head === chosen).button.focus();
    let [down, right] = moves[event.key] ?? [0, 0];
    if (event.key === "Home") [down, right] = [-row, -column];
    if (event.key === "End") [down, right] = [chosen.rows, 0];
    if (!down && !right) return;
    event.preventDefault();
    point(within(row + down, chosen.rows), within(column + right, chosen.columns), true);
  });
  for (const kind of ["pointerover", "click"]) {
    looking.addEventListener(kind, (event) => {
      const place = [...looking.children].indexOf(event.target);
      if (place >= 0) point(place, chosen.ranked(place)[0], false);
    });
  }

  /** A table of small maps; one of them at a time is reached by the Tab key, and the others from there by the arrows. */
  function grid(stack, layers) {
    const several = layers.length > 1 || layers[0].length > 1;
    made(at("grids"), "h3", stack.title);
    const box = made(at("grids"), "div");
    box.className = "scroll";
    const table = made(box, "table");
    table.className = "heads";
    table.setAttribute("role", "grid");
    table.setAttribute("aria-label", stack.title);
    if (several) {
      const names = made(made(table, "thead"), "tr");
      made(names, "td");
      const most = Math.max(...layers.map((layer) => layer.length));
      const alike = layers.every((layer) => layer.length === most); // none was pruned
      for (let place = 0; place < most; place++) made(names, "th", alike ? `head ${layers[0][place].number + 1}` : "");
    }
    const body = made(table, "tbody");
    const buttons = layers.map((layer, number) => {
      const line = made(body, "tr");
      if (several) made(line, "th", `layer ${number + 1}`).scope = "row";
      return layer.map((head) => {
        const button = made(made(line, "td"), "button");
        button.type = "button";
        button.tabIndex = -1;
        button.title = head.title;
        button.setAttribute("aria-label", head.title);
        const canvas = made(button, "canvas");
        canvas.setAttribute("aria-hidden", "true");
        const name = made(button, "span", head.short);
        name.className = "head-name";
        name.setAttribute("aria-hidden", "true");
        head.draw(canvas, SMALL);
        const cell = { button, canvas, head };
        cells.push(cell);
        button.addEventListener("click", () => {
          choose(cell);
          map.focus();
        });
        return button;
      });
    }).filter((line) => line.length);
    if (!buttons.length) return;
    buttons[0][0].tabIndex = 0;
    table.addEventListener("keydown", (event) => {
      const line = buttons.findIndex((some) => some.includes(event.target));
      if (line < 0) return;
      const place = buttons[line].indexOf(event.target);
      const next = {
        ArrowUp: [line - 1, place], ArrowDown: [line + 1, place], ArrowLeft: [line, place - 1], ArrowRight: [line, place + 1],
        Home: [line, 0], End: [line, Infinity],
      }[event.key];
      if (!next) return;
      event.preventDefault();
      const there = buttons[within(next[0], buttons.length)];
      event.target.tabIndex = -1;
      const button = there[within(next[1], there.length)];
      button.tabIndex = 0;
      button.focus();
    });
  }

  heads.forEach((layers, place) => grid(data.maps[place], layers));
  if (cells.length) choose(cells[0]);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    cells.forEach((cell) => cell.head.draw(cell.canvas, SMALL));
    chosen?.draw(map);
  });
  let width = strands.clientWidth;
  new ResizeObserver(() => {
    if (strands.clientWidth === width) return;
    width = strands.clientWidth;
    drawStrands();
    drawAxes();
  }).observe(strands);
  document.documentElement.dataset.drawn = "yes";
})();
