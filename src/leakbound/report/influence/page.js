"use strict";
for (const map of document.querySelectorAll(".map")) {
  const data = JSON.parse(map.dataset.values), pieces = [...map.querySelectorAll(".piece")];
  const buttons = [...map.querySelectorAll("button")], readout = map.querySelector("output");
  let token = -1;
  const total = row => row.reduce((sum, value) => sum + Math.abs(value), 0);
  const strength = span => token < 0 ? total(data.values[span]) : Math.abs(data.values[span][token]);
  const place = ([a, b]) => b === a + 1 ? `token ${b}` : `tokens ${a + 1} to ${b}`;
  const strongest = at => data.over[at].reduce((best, span) => strength(span) > strength(best) ? span : best);
  const target = () => token < 0 ? "the whole response" : `response token ${token + 1} “${data.tokens[token].trim()}”`;
  const describe = at => {
    const span = strongest(at);
    const signed = token < 0 ? "" : `, signed ${data.values[span][token].toFixed(3)}`;
    const text = pieces[at].textContent.trim() || "blank";
    return `${text}: span ${span + 1}, ${place(data.spans[span])}, influence ${strength(span).toFixed(3)} on ${target()}${signed}`;
  };
  const paint = () => {
    const values = pieces.map((_, at) => strength(strongest(at)));
    const top = token < 0 ? data.top : Math.max(...values) || 1;
    const strongestPiece = values.indexOf(Math.max(...values));
    pieces.forEach((piece, at) => {
      piece.style.setProperty("--a", (0.7 * values[at] / top).toFixed(3));
      piece.setAttribute("aria-label", describe(at));
      piece.title = describe(at);
      piece.classList.toggle("top", at === strongestPiece);
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
