// Which of the answers that flipped are shown.
{
  const filter = document.getElementById("flip-filter");
  if (filter) {
    const rows = [...document.querySelectorAll("#flip-table tbody tr")];
    const texts = rows.map((row) => row.textContent.toLowerCase());
    const show = () => {
      const run = filter.elements.run?.value ?? "", became = filter.elements.became.value;
      const text = filter.elements.text.value.toLowerCase();
      rows.forEach((row, at) => {
        const kept = (!run || row.dataset.run === run) && (!became || row.dataset.became === became);
        row.hidden = !(kept && texts[at].includes(text));
      });
      document.getElementById("flip-count").textContent = `${rows.filter((row) => !row.hidden).length} shown`;
    };
    filter.addEventListener("input", show);
    filter.addEventListener("submit", (event) => event.preventDefault());
    show();
  }
}
