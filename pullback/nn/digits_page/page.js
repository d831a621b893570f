"use strict";
// Draws, and passes arrays: all that is computed is in the module.
(async () => {
  const SIDE = 28, PIXELS = SIDE * SIDE, CELLS = 64, EPOCHS = 20, RATE = 0.5, BOARD = 320, INK = 32, BUSY = 14;
  const NAMES = ["k1", "b1", "k2", "b2", "fc", "b"], COUNTS = [150, 6, 1800, 12, 1920, 10];
  const $ = id => document.getElementById(id);
  const wasm = await network.load();

  // Digits -------------------------------------------------------------------------------------------------------

  function bytes(text) {
    return Uint8Array.from(atob(text), c => c.charCodeAt(0));
  }

  async function inflated(packed) {
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  const raw = await inflated(bytes(DATA.digits));
  const labels = Array.from(raw.subarray(0, DATA.count));
  const images = [];
  for (let k = 0; k < DATA.count; k++) {
    const at = DATA.count + CELLS * k;
    images.push(wasm.enlarge({ levels: Float32Array.from(raw.subarray(at, at + CELLS)) }).out);
  }
  const lessons = images.slice(0, DATA.train).map((image, k) => ({ image, label: labels[k] }));
  const tests = images.slice(DATA.train, DATA.train + DATA.tested);
  const wanted = labels.slice(DATA.train, DATA.train + DATA.tested);
  const all = new Float32Array(DATA.tested * PIXELS);
  tests.forEach((image, k) => all.set(image, k * PIXELS));

  // The network --------------------------------------------------------------------------------------------------

  let parameters, losses, shown = null;

  function start() {
    const numbers = new Float32Array(bytes(DATA.start).buffer);
    let at = 0;
    parameters = Object.fromEntries(NAMES.map((name, k) => [name, numbers.slice(at, at += COUNTS[k])]));
    losses = [];
  }

  function named(prefix) {
    return Object.fromEntries(NAMES.map(name => [prefix + name, parameters[name]]));
  }

  // An image moved by up to a pixel, as people do not draw in the same place.
  function moved(image, into, at) {
    const [down, right] = [0, 1].map(() => Math.floor(3 * Math.random()) - 1);
    for (let i = 0; i < SIDE; i++) {
      for (let j = 0; j < SIDE; j++) {
        const [u, v] = [i - down, j - right];
        into[at + SIDE * i + j] = u >= 0 && v >= 0 && u < SIDE && v < SIDE ? image[SIDE * u + v] : 0;
      }
    }
  }

  function step(some) {
    const batch = new Float32Array(DATA.together * PIXELS);
    some.forEach((lesson, k) => moved(lesson.image, batch, k * PIXELS));
    const given = { images: batch, labels: some.map(lesson => lesson.label), rate: RATE, state_loss: 0 };
    const { loss, ...after } = wasm.train({ ...named("state_parameters_"), ...given });
    parameters = after;
    return loss[0];
  }

  function recognized() {
    return Array.from(wasm.recognize({ ...named("parameters_"), images: all }).out, Number);
  }

  // Training -----------------------------------------------------------------------------------------------------

  let running = false, goal = EPOCHS;

  function shuffled(list) {
    const found = [...list];
    for (let k = found.length - 1; k > 0; k--) {
      const other = Math.floor(Math.random() * (k + 1));
      [found[k], found[other]] = [found[other], found[k]];
    }
    return found;
  }

  const pause = () => new Promise(done => setTimeout(done));

  async function epoch() {
    const order = shuffled(lessons), began = performance.now();
    let sum = 0, count = 0, last = performance.now();
    for (let k = 0; k + DATA.together <= order.length; k += DATA.together) {
      sum += step(order.slice(k, k + DATA.together));
      count += DATA.together;
      if (performance.now() - last > BUSY) {
        await pause();
        if (!running) return;
        last = performance.now();
      }
    }
    losses.push(sum / count);
    $("speed").textContent = Math.round(1000 * count / (performance.now() - began)).toLocaleString("en");
    report();
  }

  async function train() {
    running = true;
    $("train").textContent = "Pause";
    $("status").textContent = "Training on " + lessons.length.toLocaleString("en") + " digits…";
    while (running && losses.length < goal) await epoch();
    const done = losses.length >= goal;
    if (done) goal += EPOCHS;
    running = false;
    $("train").textContent = "Train";
    if (losses.length) $("status").textContent = done ? "Trained. Draw a digit, or train it further." : "Paused.";
  }

  function report() {
    const found = recognized();
    const right = found.filter((digit, k) => digit === wanted[k]).length;
    $("epochs").textContent = losses.length;
    $("accuracy").textContent = right;
    $("loss").textContent = losses.length ? losses[losses.length - 1].toFixed(4) : "–";
    const top = Math.max(...losses, 1e-9), across = Math.max(losses.length - 1, 1);
    const points = losses.map((loss, k) => `${300 * k / across},${86 - 80 * loss / top}`);
    document.querySelector("#curve polyline").setAttribute("points", points.join(" "));
    [...$("tests").children].forEach((button, k) => {
      button.classList.toggle("wrong", losses.length > 0 && found[k] !== wanted[k]);
      button.dataset.found = found[k];
      button.setAttribute("aria-label", `a ${wanted[k]}` + (losses.length ? `, seen as ${found[k]}` : ""));
    });
    look();
  }

  // What is seen of an image ---------------------------------------------------------------------------------------

  function paint(canvas, side, values, at) {
    canvas.width = canvas.height = side;
    const picture = new ImageData(side, side);
    const [r, g, b] = matchMedia("(prefers-color-scheme: dark)").matches ? [223, 229, 238] : [27, 35, 48];
    for (let k = 0; k < side * side; k++) picture.data.set([r, g, b, 255 * Math.min(1, Math.max(0, values[at + k]))], 4 * k);
    canvas.getContext("2d").putImageData(picture, 0, 0);
  }

  function canvases(count, className) {
    return Array.from({ length: count }, () => {
      const made = document.createElement("canvas");
      made.className = className;
      made.setAttribute("aria-hidden", "true");
      $("maps").append(made);
      return made;
    });
  }

  const first = canvases(6, "first"), second = canvases(12, "second");
  const bars = Array.from({ length: 10 }, (_, digit) => {
    const made = document.createElement("li");
    made.append(String(digit), document.createElement("i"));
    $("bars").append(made);
    return made;
  });

  function look() {
    const image = shown || new Float32Array(PIXELS);
    const { c1, c2, y } = wasm.layers({ ...named("parameters_"), image });
    first.forEach((canvas, k) => paint(canvas, 24, c1, 576 * k));
    second.forEach((canvas, k) => paint(canvas, 8, c2, 64 * k));
    const best = y.indexOf(Math.max(...y));
    bars.forEach((bar, digit) => {
      bar.classList.toggle("most", Boolean(shown) && digit === best);
      bar.lastChild.style.width = shown ? `${100 * y[digit]}%` : "0";
    });
    $("digit").textContent = shown ? best : "?";
  }

  // Drawing --------------------------------------------------------------------------------------------------------

  const board = $("board"), pen = board.getContext("2d");
  let strokes = [], drawing = null;

  function ink(context, width, to) {
    context.lineWidth = width;
    context.lineCap = context.lineJoin = "round";
    for (const stroke of strokes) {
      context.beginPath();
      stroke.forEach(([x, y], k) => (k ? context.lineTo(...to(x, y)) : context.moveTo(...to(x, y))));
      if (stroke.length === 1) context.lineTo(...to(stroke[0][0] + 0.01, stroke[0][1]));
      context.stroke();
    }
  }

  function show() {
    pen.clearRect(0, 0, BOARD, BOARD);
    pen.strokeStyle = getComputedStyle(document.body).color;
    ink(pen, 22, (x, y) => [x, y]);
    $("hint").hidden = strokes.length > 0;
    $("hint").style.display = strokes.length ? "none" : "";
    $("teach").hidden = strokes.length === 0;
  }

  // The strokes as an image like the bundled ones: as high as the frame, in its middle, with lines of one width.
  function seen() {
    const points = strokes.flat();
    if (!points.length) return null;
    const [xs, ys] = [0, 1].map(k => points.map(p => p[k]));
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const width = 3.6, room = INK - width - 1;
    const scale = room / Math.max(bottom - top, right - left, 24);
    const small = new OffscreenCanvas(INK, INK).getContext("2d", { willReadFrequently: true });
    const [x0, y0] = [(left + right) / 2, (top + bottom) / 2];
    ink(small, width, (x, y) => [INK / 2 + scale * (x - x0), INK / 2 + scale * (y - y0)]);
    const alpha = small.getImageData(0, 0, INK, INK).data;
    const drawn = Float32Array.from({ length: INK * INK }, (_, k) => alpha[4 * k + 3] / 255);
    return wasm.enlarge({ levels: wasm.coarse({ ink: drawn }).out }).out;
  }

  function place(event) {
    const box = board.getBoundingClientRect();
    return [BOARD * (event.clientX - box.left) / box.width, BOARD * (event.clientY - box.top) / box.height];
  }

  function drawn() {
    show();
    shown = seen();
    look();
  }

  board.addEventListener("pointerdown", event => {
    board.setPointerCapture(event.pointerId);
    strokes.push(drawing = [place(event)]);
    drawn();
  });
  board.addEventListener("pointermove", event => {
    if (!drawing) return;
    for (const e of event.getCoalescedEvents?.() ?? [event]) drawing.push(place(e));
    drawn();
  });
  for (const end of ["pointerup", "pointercancel"]) board.addEventListener(end, () => { drawing = null; });

  function clear() {
    strokes = [];
    drawing = null;
    drawn();
  }

  for (let digit = 0; digit < 10; digit++) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = digit;
    button.setAttribute("aria-label", `teach that it is a ${digit}`);
    button.addEventListener("click", () => {
      if (!shown) return;
      for (let k = 0; k < 8; k++) lessons.push({ image: shown, label: digit }); // heard among 1,437 others
      $("status").textContent = `Yours is among what it learns from, as a ${digit}.`;
      clear();
    });
    $("labels").append(button);
  }

  tests.forEach((image, k) => {
    const button = document.createElement("button");
    button.type = "button";
    const canvas = document.createElement("canvas");
    paint(canvas, SIDE, image, 0);
    button.append(canvas);
    button.addEventListener("click", () => {
      strokes = [];
      show();
      shown = image;
      look();
    });
    $("tests").append(button);
  });

  $("clear").addEventListener("click", clear);
  $("train").addEventListener("click", () => {
    if (running) running = false;
    else train();
  });
  $("forget").addEventListener("click", () => {
    running = false;
    goal = EPOCHS;
    start();
    report();
    $("status").textContent = "Not trained yet.";
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    tests.forEach((image, k) => paint($("tests").children[k].firstChild, SIDE, image, 0));
    show();
    look();
  });

  start();
  show();
  report();
  document.body.dataset.ready = "yes";
})();
