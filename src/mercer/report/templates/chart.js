// Draws data, a curve with its band, and a sum of parts into an <svg>, from plain numbers; used by the report and the app.
"use strict";
const mercerChart = (() => {
  const DAY = 86400000;

  function nice(low, high, count) { // round steps between two numbers
    const rough = (high - low) / Math.max(1, count), unit = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map(m => m * unit).find(s => s >= rough) || 10 * unit;
    const ticks = [];
    for (let at = Math.ceil(low / step) * step; at <= high + 1e-9 * step; at += step) ticks.push(+at.toPrecision(12));
    return ticks;
  }

  function dateTicks(low, high, count) {
    const days = (high - low) / DAY, rough = days / Math.max(1, count), ticks = [];
    if (rough < 20) {
      const step = [1 / 24, 0.25, 1, 2, 7, 14].find(s => s >= rough) || 14;
      for (let at = Math.ceil(low / (step * DAY)) * step * DAY; at <= high; at += step * DAY) ticks.push(at);
      return ticks;
    }
    const months = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000].find(m => m * 30.4 >= rough) || 12000;
    const start = new Date(low);
    let month = start.getUTCFullYear() * 12 + start.getUTCMonth();
    month = Math.ceil(month / months) * months;
    for (let at = stamp(month); at <= high; month += months, at = stamp(month)) if (at >= low) ticks.push(at);
    return ticks;
  }

  function stamp(month) {
    const date = new Date(0);
    date.setUTCFullYear(Math.floor(month / 12), ((month % 12) + 12) % 12, 1);
    return date.getTime();
  }

  function writeDate(at, span) {
    const text = new Date(at).toISOString().replace(/^\+00/, "");
    if (span > 1200 * DAY) return text.slice(0, -20);
    if (span > 120 * DAY) return text.slice(0, -17);
    return span > 4 * DAY ? text.slice(0, -14) : text.slice(-19, -8).replace("T", " ");
  }

  function writeNumber(value, spread) { // no more digits than the spread makes meaningful
    if (value === null || !isFinite(value)) return "–";
    if (Math.abs(value) >= 1e7 || (value !== 0 && Math.abs(value) < 1e-4 && spread < 1e-3)) return value.toPrecision(3);
    const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(spread || 1))));
    return value.toFixed(digits).replace("-", "−");
  }

  function writeTick(value) { // a round number: as many digits as it has
    return Math.abs(value) >= 1e6 || (value !== 0 && Math.abs(value) < 1e-4) ? value.toExponential().replace("e+", "e") : String(value).replace("-", "−");
  }

  function extent(lists) {
    let low = Infinity, high = -Infinity;
    for (const list of lists) for (const v of list) if (v !== null && isFinite(v)) { low = Math.min(low, v); high = Math.max(high, v); }
    return low <= high ? [low, high] : [0, 1];
  }

  function draw(svg, spec) {
    const width = Math.max(280, svg.clientWidth || 700), height = Math.round(width < 520 ? 0.72 * width : 0.42 * width);
    const line = spec.line || null, points = spec.points || { x: [], y: [] }, sum = spec.sum || null;
    const scatter = spec.kind === "scatter";
    let [x0, x1] = spec.ends || extent([points.x, line ? line.x : []]);
    let [y0, y1] = spec.span || extent([points.y, line ? line.low : [], line ? line.high : [], sum ? sum.y : []]);
    if (scatter) [y0, y1] = [x0, x1] = extent([points.x, points.y]);
    if (x0 === x1) { x0 -= 1; x1 += 1; }
    if (y0 === y1) { y0 -= 1; y1 += 1; }
    const pad = 0.04 * (y1 - y0);
    y0 -= pad; y1 += pad;
    if (scatter) { x0 -= pad; x1 += pad; }
    const labels = nice(y0, y1, 5), widest = Math.max(...labels.map(v => writeTick(v).length));
    const left = 18 + 7.5 * widest + 8, right = width - 10, top = 24, bottom = height - 38;
    const px = v => left + (v - x0) / (x1 - x0) * (right - left), py = v => bottom - (v - y0) / (y1 - y0) * (bottom - top);
    const make = (name, attributes, text) => {
      const element = document.createElementNS(svg.namespaceURI, name);
      for (const key in attributes) element.setAttribute(key, attributes[key]);
      if (text !== undefined) element.textContent = text;
      svg.appendChild(element);
      return element;
    };
    [...svg.querySelectorAll(":scope > :not(title)")].forEach(element => element.remove());
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    if (spec.last !== undefined && spec.last < x1) make("rect", { class: "c-beyond", x: px(spec.last), y: top, width: right - px(spec.last), height: bottom - top });
    for (const v of labels) {
      make("line", { class: "c-grid", x1: left, x2: right, y1: py(v), y2: py(v) });
      make("text", { class: "c-text", x: left - 6, y: py(v) + 4, "text-anchor": "end" }, writeTick(v));
    }
    const few = Math.max(2, Math.floor(width / 120)), mark = spec.x.dates ? dateTicks : nice;
    let ticks = mark(x0, x1, few);
    for (let more = few + 1; ticks.length < 2 && more < few + 4; more++) ticks = mark(x0, x1, more); // one tells no scale
    for (const v of ticks) {
      make("line", { class: "c-tick", x1: px(v), x2: px(v), y1: bottom, y2: bottom + 4 });
      make("text", { class: "c-text", x: px(v), y: bottom + 17, "text-anchor": "middle" }, spec.x.dates ? writeDate(v, x1 - x0) : writeTick(v));
    }
    make("line", { class: "c-tick", x1: left, x2: right, y1: bottom, y2: bottom });
    make("text", { class: "c-text", x: (left + right) / 2, y: height - 4, "text-anchor": "middle" }, shorten(spec.x.name, width - 40));
    make("text", { class: "c-text", x: 4, y: 13 }, shorten(spec.y, width - 40));
    const path = (xs, ys) => {
      let text = "", open = false;
      xs.forEach((x, i) => {
        const y = ys[i];
        if (y === null || x < x0 - 1e-9 || x > x1 + 1e-9) { open = false; return; }
        text += `${open ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
        open = true;
      });
      return text;
    };
    if (scatter) make("line", { class: "c-tick", x1: px(Math.max(x0, y0)), y1: py(Math.max(x0, y0)), x2: px(Math.min(x1, y1)), y2: py(Math.min(x1, y1)) });
    if (line) {
      const kept = line.x.map((x, i) => i).filter(i => line.x[i] <= x1 + 1e-9 && line.low[i] !== null);
      if (kept.length) make("path", { class: "c-band", d: `M${kept.map(i => `${px(line.x[i]).toFixed(1)} ${py(line.high[i]).toFixed(1)}`).join("L")}L${kept.reverse().map(i => `${px(line.x[i]).toFixed(1)} ${py(line.low[i]).toFixed(1)}`).join("L")}Z` });
      make("path", { class: "c-mean", d: path(line.x, line.mean) });
    }
    const radius = points.x.length > 400 ? 1.3 : 2;
    let dots = "";
    points.x.forEach((x, i) => {
      if (x >= x0 && x <= x1 && points.y[i] !== null) dots += `M${(px(x) - radius).toFixed(1)} ${py(points.y[i]).toFixed(1)}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`;
    });
    if (dots) make("path", { class: "c-dots", d: dots });
    if (sum) make("path", { class: "c-sum", d: path(sum.x, sum.y) });
    if (spec.mark !== undefined && spec.mark >= x0 && spec.mark <= x1) make("line", { class: "c-mark", x1: px(spec.mark), x2: px(spec.mark), y1: top, y2: bottom });
    return { toX: clientX => {
      const box = svg.getBoundingClientRect();
      return x0 + ((clientX - box.left) / box.width * width - left) / (right - left) * (x1 - x0);
    } };
  }

  function shorten(text, width) { // to what fits: a letter is about 7 wide
    const most = Math.floor(width / 7);
    return text.length > most ? `${text.slice(0, most - 1)}…` : text;
  }

  return { draw, writeDate, writeNumber, extent };
})();
