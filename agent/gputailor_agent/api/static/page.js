// Makes reading easier and is needed for nothing: copies what is to be applied, and hides the rows
// of this page that do not fit what is being typed.
"use strict";
(function () {
  const words = document.body.dataset;

  function copied(button) {
    button.textContent = words.copied;
    setTimeout(function () { button.textContent = words.copy; }, 2000);
  }

  function select(code) {
    const range = document.createRange();
    range.selectNodeContents(code);
    const chosen = getSelection();
    chosen.removeAllRanges();
    chosen.addRange(range);
  }

  for (const code of document.querySelectorAll(".code code")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = words.copy;
    button.addEventListener("click", async function () {
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch (error) {
        select(code); // without TLS there is no clipboard; the keys of the system copy it
        if (!document.execCommand("copy")) return;
      }
      copied(button);
    });
    code.closest(".code").append(button);
  }

  const input = document.querySelector("input[data-instant]");
  const table = input && document.querySelector(input.dataset.instant);
  if (!table) return;
  const status = document.getElementById("found");
  const told = status.textContent;
  const rows = Array.from(table.tBodies[0].rows);
  const texts = rows.map(function (row) { return row.textContent.toLowerCase(); });
  input.addEventListener("input", function () {
    const asked = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach(function (row, at) {
      row.hidden = !asked.every(function (word) { return texts[at].includes(word); });
      if (!row.hidden) shown += 1;
    });
    status.textContent = asked.length
      ? words.shown.replace("{shown}", shown).replace("{all}", rows.length) : told;
  });
})();
