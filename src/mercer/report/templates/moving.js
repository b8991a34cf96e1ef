// The picture of the report that moves. Everything in it was computed before; here it is added up and drawn.
"use strict";
(() => {
  const box = document.getElementById("moving"), numbers = document.getElementById("moving-numbers");
  if (!box || !numbers) return;
  const data = JSON.parse(numbers.textContent), find = name => box.querySelector(`[data-is=${name}]`);
  const svg = find("picture"), parts = find("parts"), choose = find("input"), look = find("look"), ahead = find("ahead");
  const DAYS = { years: 1300, months: 200, weeks: 10, days: 10 }; // a span whose dates are written as finely as the unit
  let curve = data.curves[0], chart = null;

  function label(input, text) {
    const made = document.createElement("label");
    made.append(input, ` ${text}`);
    return made;
  }

  function offerParts() {
    parts.querySelectorAll("label").forEach(each => each.remove());
    const minor = curve.parts.filter(each => data.parts[each.part].minor);
    for (const each of curve.parts.filter(each => !minor.includes(each))) offer([each], data.parts[each.part].title);
    if (minor.length) offer(minor, minor.length > 1 ? `${minor.length} small parts` : data.parts[minor[0].part].title);
  }

  function offer(group, title) {
    const input = Object.assign(document.createElement("input"), { type: "checkbox", checked: true });
    input.addEventListener("change", () => {
      group.forEach(each => { each.off = !input.checked; });
      show();
    });
    group.forEach(each => { each.off = false; });
    parts.append(label(input, title));
  }

  function addUp() {
    const on = curve.parts.filter(each => !each.off);
    return curve.x.map((_, i) => on.some(each => each.y[i] === null) ? null : on.reduce((sum, each) => sum + each.y[i], curve.base));
  }

  function end() { // the last place that is shown
    if (curve.last === undefined) return curve.x.length - 1;
    const after = curve.x.findIndex(x => x > curve.last), last = curve.x.length - 1;
    return after < 1 ? last : Math.round(after - 1 + (last - after + 1) * ahead.value / 100);
  }

  function write(x) {
    if (curve.dates) return mercerChart.writeDate(x, (DAYS[curve.unit] ?? 1) * 86400000);
    return mercerChart.writeNumber(x, curve.x[curve.x.length - 1] - curve.x[0]);
  }

  function show() {
    const last = end(), place = Math.min(last, Math.round(look.value / 100 * (curve.x.length - 1))), sums = addUp();
    const low = curve.mean.map((m, i) => m - curve.reach[i]), high = curve.mean.map((m, i) => m + curve.reach[i]);
    const off = curve.parts.some(each => each.off);
    const span = mercerChart.extent([low, high, curve.points ? curve.points.y : [], off ? sums : []]);
    chart = mercerChart.draw(svg, {
      kind: "curve", x: { name: curve.name, dates: curve.dates }, y: data.target, points: curve.points, last: curve.last,
      line: { x: curve.x, mean: curve.mean, low, high }, sum: off ? { x: curve.x, y: sums } : null,
      ends: [curve.x[0], curve.x[last]], span, mark: curve.x[place],
    });
    const spread = span[1] - span[0], number = v => mercerChart.writeNumber(v, spread);
    const [middle, from, to] = [curve.mean[place], low[place], high[place]].map(number);
    let text = `${curve.name} ${write(curve.x[place])}: ${middle} expected, with 95 % probability between ${from} and ${to}`;
    if (!curve.observations) text = `${curve.name} ${write(curve.x[place])}: ${middle} on average (95 % band ${from} to ${to}), the other inputs at their median or most common category`;
    if (off) text += `; the parts that are switched on add up to ${sums[place] === null ? "nothing that is known here" : number(sums[place])}`;
    find("values").textContent = `${text}.`;
    look.setAttribute("aria-valuetext", write(curve.x[place]));
    ahead.setAttribute("aria-valuetext", `to ${write(curve.x[last])}`);
    find("horizon").textContent = `to ${write(curve.x[last])}`;
  }

  function follow(event) {
    const x = chart.toX(event.clientX);
    let best = 0;
    curve.x.forEach((each, i) => { if (Math.abs(each - x) < Math.abs(curve.x[best] - x)) best = i; });
    look.value = 100 * best / (curve.x.length - 1);
    show();
  }

  function choosePicture() {
    curve = data.curves[choose.value];
    find("beyond").hidden = curve.last === undefined || curve.last >= curve.x[curve.x.length - 1];
    offerParts();
    show();
  }

  data.curves.forEach((each, i) => choose.append(new Option(each.name, i)));
  find("inputs").hidden = data.curves.length < 2;
  choose.addEventListener("change", choosePicture);
  [look, ahead].forEach(each => each.addEventListener("input", show));
  svg.addEventListener("pointermove", follow);
  svg.addEventListener("pointerdown", follow);
  addEventListener("resize", show);
  box.hidden = false;
  choosePicture();
})();
