// Returns what a person with a screen reader, a keyboard or weak eyes would stumble over; an empty list where nothing.
(() => {
  const faults = [], all = selector => [...document.querySelectorAll(selector)];
  const shown = element => element.getClientRects().length > 0 && getComputedStyle(element).visibility !== "hidden";
  const where = element => `<${element.tagName.toLowerCase()}${element.id ? ` id=${element.id}` : ""}> ${(element.textContent || "").trim().slice(0, 40)}`;
  const fault = (kind, element) => faults.push(element ? `${kind}: ${where(element)}` : kind);
  const byIds = ids => (ids || "").split(/\s+/).filter(Boolean).map(id => document.getElementById(id));

  function nameOf(element) {
    const labelled = byIds(element.getAttribute("aria-labelledby")).filter(Boolean).map(each => each.textContent).join(" ");
    const labels = element.labels ? [...element.labels].map(each => each.textContent).join(" ") : "";
    const inner = element.matches("input, select, textarea, progress") ? "" : element.textContent;
    const title = element.querySelector(":scope > title");
    return (labelled || element.getAttribute("aria-label") || labels || element.getAttribute("alt") || (title ? title.textContent : "") || inner || element.getAttribute("title") || "").trim();
  }

  if (!document.documentElement.lang) fault("no language");
  if (!document.title.trim()) fault("no title");
  if (/user-scalable\s*=\s*no|maximum-scale/.test((document.querySelector("meta[name=viewport]") || {}).content || "")) fault("zoom is hindered");
  const headings = all("h1, h2, h3, h4, h5, h6").filter(shown);
  if (headings.filter(each => each.tagName === "H1").length !== 1) fault("not one first heading");
  headings.reduce((before, each) => {
    if (+each.tagName[1] > before + 1) fault("a heading skips a level", each);
    if (!each.textContent.trim()) fault("an empty heading", each);
    return +each.tagName[1];
  }, 0);
  if (all("main").length !== 1) fault("not one main part");
  const ids = all("[id]").map(each => each.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach(id => fault(`an id twice: ${id}`));
  for (const name of ["aria-labelledby", "aria-describedby", "for"]) all(`[${name}]`).forEach(each => { if (byIds(each.getAttribute(name)).includes(null)) fault(`${name} leads nowhere`, each); });
  all("a[href^='#']").forEach(each => { if (each.hash.length > 1 && !document.getElementById(decodeURIComponent(each.hash.slice(1)))) fault("a link leads nowhere", each); });
  all("input:not([type=hidden]), select, textarea, button, a[href], progress, [role=img], [role=region], img, summary").filter(shown).forEach(each => {
    if (!each.closest("[aria-hidden=true]") && !nameOf(each) && !(each.tagName === "IMG" && each.getAttribute("alt") === "")) fault("no name", each);
  });
  all("img").forEach(each => { if (!each.hasAttribute("alt")) fault("no alternative text", each); });
  all("fieldset").forEach(each => { if (!each.querySelector(":scope > legend")) fault("a group without a legend", each); });
  all("[tabindex]").forEach(each => { if (each.tabIndex > 0) fault("an order of its own", each); });
  all("[aria-hidden=true]").forEach(each => { if (each.matches("a, button, input, select") || each.querySelector("a, button, input, select")) fault("hidden, and can be reached", each); });
  all("ul, ol").forEach(each => { if ([...each.children].some(child => !child.matches("li, script, template"))) fault("a list of other things", each); });
  all("dl").forEach(each => { if ([...each.children].some(child => !child.matches("dt, dd, div"))) fault("a list of terms with other things", each); });
  all("table").forEach(each => { if (!each.querySelector("th") || [...each.querySelectorAll("th")].some(cell => !cell.scope)) fault("a table without heads", each); });
  all("[aria-invalid=true]").forEach(each => { if (!each.hasAttribute("aria-describedby")) fault("wrong, and not said why", each); });
  all("*").filter(each => shown(each) && each.scrollWidth > each.clientWidth + 1 && /auto|scroll/.test(getComputedStyle(each).overflowX)).forEach(each => {
    if (each !== document.documentElement && each.tabIndex < 0 && !each.querySelector("a, button, input, select")) fault("scrolls, and a keyboard cannot reach it", each);
  });
  all("button, select, .button").filter(shown).forEach(each => {
    const box = each.getBoundingClientRect();
    if (box.height < 24 || box.width < 24) fault("too small to hit", each);
  });
  if (document.documentElement.scrollWidth > innerWidth) fault("wider than the window");

  // Contrast of every visible text with what lies behind it (WCAG 2: 4.5 to 1, large text 3 to 1).
  const channels = colour => (colour.match(/[\d.]+/g) || []).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (top, below) => { const a = top.length > 3 ? top[3] : 1; return [0, 1, 2].map(i => a * top[i] + (1 - a) * below[i]); };
  function behind(element) {
    const layers = [];
    for (let each = element; each; each = each.parentElement) layers.push(channels(getComputedStyle(each).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), matchMedia("(prefers-color-scheme: dark)").matches ? [20, 23, 28] : [255, 255, 255]);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || element.closest("script, style, noscript, option, .hidden, .skip, [disabled]") || !shown(element)) continue;
    const style = getComputedStyle(element), ground = behind(element);
    const ink = over(channels(element.closest("svg") && style.fill !== "none" ? style.fill : style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) fault(`contrast ${ratio.toFixed(2)} ${style.color}`, element);
  }
  return faults;
})()
