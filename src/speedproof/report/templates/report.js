"use strict";
// Tables sort by their headings and filter by words; a link into a fold opens it; all folds are open in print.
const UNITS = {ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, KiB: 2 ** -10, MiB: 1, GiB: 2 ** 10};
function amount(text) {
  const found = text.replace(/[\u202f\u00a0]/g, " ").replace("−", "-").match(/^[<>+]?\s*(-?\d[\d ]*\.?\d*)(?:–[\d. ]+)?\s*([a-zµA-Z]+)?/);
  return found ? parseFloat(found[1].replaceAll(" ", "")) * (UNITS[found[2]] ?? 1) : NaN;
}
function sort(table, column, heading) {
  const down = heading.getAttribute("aria-sort") === "ascending";
  table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const rows = [...table.tBodies[0].rows].map((row) => [row, row.cells[column]?.textContent.trim() ?? ""]);
  rows.sort(([, one], [, other]) => {
    const [a, b] = [amount(one), amount(other)];
    const order = isNaN(a) && isNaN(b) ? one.localeCompare(other) : isNaN(a) ? 1 : isNaN(b) ? -1 : a - b;
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows.map(([row]) => row));
}
const narrow = matchMedia("(max-width: 700px)");
function label() { // on a narrow page each cell shows its heading
  if (!narrow.matches) return;
  for (const {tHead, tBodies} of document.querySelectorAll(".table > table"))
    for (const {cells} of tBodies[0].rows) for (const cell of cells) cell.dataset.label = tHead.rows[0].cells[cell.cellIndex].textContent;
}
label();
narrow.addEventListener("change", label);
for (const table of document.querySelectorAll(".table > table")) {
  if (table.tBodies[0].rows.length < 2) continue;
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(table, column, heading));
  });
  if (table.tBodies[0].rows.length < 8) continue;
  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = `Filter ${table.tBodies[0].rows.length} rows`;
  filter.setAttribute("aria-label", "Filter rows");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
  table.parentElement.before(filter);
}
function open(hash) {
  const target = hash && document.getElementById(decodeURIComponent(hash.slice(1)));
  for (let fold = target; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") fold.open = true;
  if (target) target.scrollIntoView();
}
addEventListener("hashchange", () => open(location.hash));
open(location.hash);
document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) open(link.hash);
  const contents = document.querySelector(".contents");
  if (contents.open && !event.target.closest(".contents > summary")) contents.open = false;
});
for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", async () => {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(button.parentElement.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
}
const theme = document.querySelector(".theme");
theme.addEventListener("change", () => { document.documentElement.dataset.theme = theme.value; });
let folded = [];
addEventListener("beforeprint", () => {
  folded = [...document.querySelectorAll("details:not([open], .contents)")];
  for (const fold of folded) fold.open = true;
});
addEventListener("afterprint", () => { for (const fold of folded) fold.open = false; });
