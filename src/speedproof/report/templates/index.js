"use strict";
// The table sorts by a click on a heading, again for the other direction, and shows the rows that hold all words of the filter.
const table = document.querySelector("table"), body = table.tBodies[0], filter = document.getElementById("filter");
const headings = [...table.tHead.rows[0].cells];
function valueOf(row, column) {
  const {dataset: {sort}, textContent} = row.cells[column];
  if (sort === undefined) return textContent.trim().replace(/^–$/, "").toLowerCase();
  return sort === "" ? "" : Number(sort);
}
function compare(one, other) {
  return typeof one === "number" && typeof other === "number" ? one - other : String(one).localeCompare(String(other));
}
headings.forEach((heading, column) => heading.querySelector("button").addEventListener("click", () => {
  const turn = heading.ariaSort === "ascending" ? -1 : 1;
  for (const other of headings) other.ariaSort = other === heading ? (turn > 0 ? "ascending" : "descending") : "none";
  const rows = [...body.rows].map((row) => [row, valueOf(row, column)]);
  // Rows without a value come last in both directions.
  rows.sort(([, one], [, other]) => (one === "") - (other === "") || turn * compare(one, other));
  body.append(...rows.map(([row]) => row));
}));
filter.addEventListener("input", () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  for (const row of body.rows) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  const shown = [...body.rows].filter((row) => !row.hidden).length;
  document.querySelector("[role=status]").textContent = filter.value.trim() ? `${shown} of ${body.rows.length} shown` : "";
});
