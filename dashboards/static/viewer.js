"use strict";
// Fetches each panel's content and draws it. Text goes in by textContent only.

const dashboard = location.pathname.split("/").pop();

function cell(tag, text, numeric) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (numeric) element.className = "number";
  return element;
}

function drawTable(target, table) {
  const element = document.createElement("table");
  const head = element.createTHead().insertRow();
  table.columns.forEach((name, i) => head.appendChild(cell("th", name, table.numeric[i])));
  const body = element.createTBody();
  for (const row of table.rows) {
    const line = body.insertRow();
    row.forEach((text, i) => line.appendChild(cell("td", text, table.numeric[i])));
    if (table.heat) {
      table.heat[line.rowIndex - 1].forEach((warmth, i) => {
        if (warmth > 0) line.cells[i].style.backgroundColor = `rgba(213, 94, 0, ${0.06 + 0.6 * warmth})`;
      });
    }
  }
  target.replaceChildren(element);
}

function drawFigure(target, figure) {
  target.textContent = "";
  figure.layout.autosize = true;
  Plotly.react(target, figure.data, figure.layout, { displayModeBar: false, responsive: true });
}

async function load(panel) {
  const target = panel.querySelector(".content");
  try {
    const answer = await fetch(`/d/${dashboard}/panels/${panel.dataset.panel}.json${location.search}`);
    const content = await answer.json();
    target.className = "content" + (content.error ? " error" : content.kind === "empty" ? " empty" : "");
    if (content.error) target.textContent = content.error;
    else if (content.kind === "table") drawTable(target, content.table);
    else if (content.kind === "figure") drawFigure(target, content.figure);
    else target.textContent = content.text;
  } catch (error) {
    target.className = "content error";
    target.textContent = String(error);
  }
  target.removeAttribute("aria-busy");
}

const panels = [...document.querySelectorAll(".panel")];
const refresh = () => Promise.all(panels.map(load));
document.getElementById("filters").addEventListener("change", (event) => {
  const form = event.currentTarget;
  if (form.elements.range.value !== "custom") form.querySelectorAll("input[type=hidden]").forEach((input) => input.remove());
  form.submit();
});
refresh();
setInterval(refresh, 30000);
