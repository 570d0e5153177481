/* Draws the curves from the data in the page: for each arm the mean over seeds as a line, and a band from the smallest to
   the largest value. */
(function () {
  "use strict";
  const data = JSON.parse(document.getElementById("data").textContent);
  const hidden = new Set();
  const dashes = [[], [8, 5], [2, 4], [9, 4, 2, 4]];
  let plots = [];

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const colour = (arm) => style("--c" + (arm % 7));
  const fade = (hex, alpha) => hex + Math.round(alpha * 255).toString(16).padStart(2, "0");
  const short = (x) => (x === 0 || Math.abs(x) >= 1e-3 ? x.toFixed(4) : x.toExponential(1));

  /* Returns round numbers; on a logarithmic axis 1, 2 and 5 in every decade, or 1 and 3, or only powers of ten. */
  function ticks(chart, min, max, most) {
    if (!(max > min)) return [min];
    const list = [];
    const add = (x) => { if (x >= min * (1 - 1e-9) && x <= max * (1 + 1e-9)) list.push(x); };
    const decades = Math.log10(max / min);
    if (chart.log && decades >= 1) {
      const every = Math.max(1, Math.ceil(decades / most));
      for (let k = Math.floor(Math.log10(min)); k <= Math.ceil(Math.log10(max)); k++)
        for (const digit of 3 * decades <= most ? [1, 2, 5] : 2 * decades <= most ? [1, 3] : [1])
          if (k % every === 0) add(Number(digit + "e" + k));
      return list;
    }
    const power = Math.floor(Math.log10((max - min) / most));
    const step = Number("1e" + power) * [1, 2, 5, 10].find((f) => (max - min) / (f * 10 ** power) <= most);
    for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i++) list.push(Number((i * step).toPrecision(12)));
    return list;
  }

  /* Limits a logarithmic axis to the range of the data instead of whole decades. */
  const tight = (u, min, max) => (min > 0 ? [min / 1.08, max * 1.08] : [1e-3, 1]);

  /* Returns the steps of all arms, followed by the mean, low and high values of each arm. */
  function columns(chart) {
    return uPlot.join(chart.bands.map((b) => [b.step, b.mean, b.low, b.high]));
  }

  function series(chart) {
    const list = [{}];
    const alpha = chart.bands.length > 6 ? 0.07 : 0.15;
    const bands = [];
    for (const { arm } of chart.bands) {
      const show = !hidden.has(arm);
      const points = { show: false };
      list.push({ show, stroke: colour(arm), width: 2, dash: dashes[Math.floor(arm / 7) % 4], spanGaps: true, points, arm });
      list.push({ show, stroke: "transparent", spanGaps: true, points, arm });
      list.push({ show, stroke: "transparent", spanGaps: true, points, arm });
      bands.push({ series: [list.length - 1, list.length - 2], fill: fade(colour(arm), alpha) });
    }
    return { list, bands };
  }

  /* Shows the values at the pointer in the order of the lines. */
  function tip(chart) {
    const box = document.createElement("div");
    box.className = "tip";
    box.hidden = true;
    return {
      hooks: {
        init: (u) => u.over.appendChild(box),
        setCursor: (u) => {
          const at = u.cursor.idx;
          const rows = at == null ? [] : chart.bands
            .map((b, i) => ({ arm: b.arm, loss: u.data[3 * i + 1][at] }))
            .filter((row) => row.loss != null && !hidden.has(row.arm))
            .sort((a, b) => b.loss - a.loss);
          box.hidden = rows.length === 0 || u.cursor.left < 0;
          if (box.hidden) return;
          box.replaceChildren("step " + u.data[0][at]);
          for (const row of rows) {
            const line = document.createElement("div");
            const mark = document.createElement("span");
            mark.style.background = colour(row.arm);
            line.append(mark, data.arms[row.arm] + " " + short(row.loss));
            box.append(line);
          }
          const right = u.cursor.left + 14 + box.offsetWidth > u.over.clientWidth;
          box.style.left = Math.max(0, right ? u.cursor.left - 14 - box.offsetWidth : u.cursor.left + 14) + "px";
          box.style.top = "4px";
        },
      },
    };
  }

  function draw(chart) {
    const box = document.getElementById("plot-" + chart.id);
    const { list, bands } = series(chart);
    const narrow = box.clientWidth < 600;
    const height = narrow ? 260 : 340;
    const axis = { labelFont: "13px system-ui, sans-serif", labelSize: 20, labelGap: 0, stroke: style("--muted"), font: "12px system-ui, sans-serif", grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--line"), width: 1 } };
    const zero = (u) => {
      const y = u.valToPos(0, "y", true);
      if (chart.id !== "difference" || y < u.bbox.top || y > u.bbox.top + u.bbox.height) return;
      u.ctx.save();
      u.ctx.strokeStyle = style("--muted");
      u.ctx.lineWidth = 1.5 * devicePixelRatio;
      u.ctx.beginPath();
      u.ctx.moveTo(u.bbox.left, y);
      u.ctx.lineTo(u.bbox.left + u.bbox.width, y);
      u.ctx.stroke();
      u.ctx.restore();
    };
    box.replaceChildren();
    plots.push(new uPlot({
      width: box.clientWidth,
      height,
      scales: { x: { time: false }, y: chart.log ? { distr: 3, range: tight } : {} },
      axes: [
        { ...axis, size: 34, label: chart.x, space: narrow ? 60 : 80 },
        {
          ...axis, label: chart.y,
          size: (u, values) => 14 + 7.5 * Math.max(4, ...(values || []).map((text) => text.length)),
          splits: (u, i, min, max) => ticks(chart, min, max, height / 34),
          filter: (u, splits) => splits,
          values: (u, splits) => splits.map((x) => (x !== 0 && Math.abs(x) < 1e-4 ? Number(x.toPrecision(3)).toExponential() : String(x))),
        },
      ],
      series: list,
      bands,
      legend: { show: false },
      cursor: { y: false, points: { show: false } },
      hooks: { drawAxes: [zero] },
      plugins: [tip(chart)],
    }, columns(chart), box));
  }

  function drawAll() {
    for (const u of plots) u.destroy();
    plots = [];
    data.charts.forEach(draw);
  }

  for (const button of document.querySelectorAll(".legend button"))
    button.addEventListener("click", () => {
      const arm = Number(button.dataset.arm);
      const show = hidden.delete(arm) || (hidden.add(arm), false);
      button.setAttribute("aria-pressed", String(show));
      for (const u of plots)
        u.series.forEach((s, i) => { if (s.arm === arm) u.setSeries(i, { show }); });
    });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  matchMedia("print").addEventListener("change", drawAll);
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
  drawAll();
})();
