"use strict";
for (const map of document.querySelectorAll(".map")) {
  const data = JSON.parse(map.dataset.values), pieces = [...map.querySelectorAll(".piece")];
  const buttons = [...map.querySelectorAll("button")], readout = map.querySelector("output");
  let token = -1;
  const total = row => row.reduce((sum, value) => sum + Math.abs(value), 0);
  const strength = span => token < 0 ? total(data.values[span]) : Math.abs(data.values[span][token]);
  const place = ([a, b]) => b === a + 1 ? `token ${b}` : `tokens ${a + 1} to ${b}`;
  const strongest = at => data.over[at].reduce((best, span) => best < 0 || strength(span) > strength(best) ? span : best, -1);
  const target = () => token < 0 ? "the whole response" : `response token ${token + 1} “${data.tokens[token].trim()}”`;
  const describe = at => {
    const span = strongest(at), full = pieces[at].textContent.trim();
    const text = (full.length > 80 ? `${full.slice(0, 80)}…` : full) || "blank";
    if (span < 0) return `${text}: not measured`;
    const signed = token < 0 ? "" : `, signed ${data.values[span][token].toFixed(3)}`;
    return `${text}: ${data.names[span] || `span ${span + 1}`}, ${place(data.spans[span])}, influence ${strength(span).toFixed(3)} on ${target()}${signed}`;
  };
  const paint = () => {
    const values = pieces.map((_, at) => strongest(at) < 0 ? 0 : strength(strongest(at)));
    const most = Math.max(...values), faint = data.whole.length > 0;
    const top = token < 0 ? data.top : Math.max(most, faint ? data.whole[token] : 0) || 1;
    pieces.forEach((piece, at) => {
      piece.style.setProperty("--a", (0.7 * values[at] / top).toFixed(3));
      piece.setAttribute("aria-label", describe(at));
      piece.title = describe(at);
      piece.classList.toggle("top", !faint && most > 0 && values[at] >= 0.999 * most);
    });
  };
  const visit = at => { readout.textContent = describe(at); };
  pieces.forEach((piece, at) => {
    piece.addEventListener("mouseenter", () => visit(at));
    piece.addEventListener("focus", () => {
      pieces.forEach(other => { other.tabIndex = other === piece ? 0 : -1; });
      visit(at);
    });
    piece.addEventListener("keydown", event => {
      const steps = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: pieces.length - 1 };
      const next = pieces[steps[event.key]];
      if (next) { event.preventDefault(); next.focus(); }
    });
  });
  buttons.forEach((button, at) => button.addEventListener("click", () => {
    token = at - 1;
    buttons.forEach(other => other.setAttribute("aria-pressed", String(other === button)));
    paint();
    readout.textContent = `Shown: influence on ${target()}.`;
  }));
}
const find = document.getElementById("find"), found = document.getElementById("found");
let last = -1;
find.addEventListener("input", () => { last = -1; found.textContent = ""; });
find.addEventListener("keydown", event => {
  const wanted = find.value.trim().toLowerCase();
  if (event.key !== "Enter" || !wanted) return;
  const named = [...document.querySelectorAll(".piece")].filter(
    piece => `${piece.getAttribute("aria-label")} ${piece.textContent}`.toLowerCase().includes(wanted));
  last = named.length ? (last + 1) % named.length : -1;
  found.textContent = named.length ? `${last + 1} of ${named.length}` : "not found";
  if (named.length) { event.preventDefault(); named[last].focus(); named[last].scrollIntoView({ block: "center" }); }
});
