"use strict";
for (const browser of document.querySelectorAll(".browser")) {
  const form = browser.querySelector("form");
  const count = form.querySelector("output");
  const examples = [...browser.querySelectorAll("details")];
  const texts = examples.map((example) => example.textContent.toLowerCase());
  const filter = () => {
    const words = form.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const chosen = [...form.querySelectorAll("select")].filter((select) => select.value);
    let shown = 0;
    examples.forEach((example, place) => {
      const fits =
        chosen.every((select) => example.dataset[select.name] === select.value) &&
        words.every((word) => texts[place].includes(word));
      example.hidden = !fits;
      shown += fits;
    });
    count.value = `${shown} of ${examples.length}`;
  };
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  filter();
}
addEventListener("beforeprint", () => {
  for (const example of document.querySelectorAll(".browser details:not([hidden])")) example.open = true;
});
