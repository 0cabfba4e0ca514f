"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  const box = document.querySelector("input[type=search]"), count = document.querySelector("output");
  const value = (row, at) => row.cells[at].dataset.key === undefined ? row.cells[at].textContent : Number(row.cells[at].dataset.key);
  const order = (a, b) => typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
  heads.forEach((head, at) => head.querySelector("button").addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    rows.sort((a, b) => (up ? 1 : -1) * order(value(a, at), value(b, at)));
    body.append(...rows);
  }));
  const filter = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach(row => { row.hidden = !words.every(word => row.dataset.text.includes(word)); });
    count.textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} points shown`;
  };
  box.addEventListener("input", filter);
  box.closest("p").hidden = false;
  filter();
}
