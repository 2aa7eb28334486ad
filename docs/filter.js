"use strict";
// A long table gets a field above it, and shows the rows that hold all words of the field.
const LONG = 20;
for (const table of document.querySelectorAll(".md-typeset table")) {
  const rows = [...table.tBodies[0]?.rows ?? []];
  if (rows.length < LONG) continue;
  const filter = Object.assign(document.createElement("input"), {type: "search", placeholder: "Filter rows", className: "rows-filter"});
  filter.setAttribute("aria-label", "Filter the rows of this table by words");
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    count.textContent = filter.value.trim() ? ` ${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  });
  (table.closest(".md-typeset__scrollwrap") ?? table).before(filter, count);
}
