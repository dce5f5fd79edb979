const at = (id) => document.getElementById(id);
const made = (name, text, kind) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
};
const number = (n) => n.toLocaleString("en");
const UNITS = [[86400e9, "d"], [3600e9, "h"], [60e9, "min"], [1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
const span = (ns) => {
    const [size, unit] = UNITS.find(([size]) => ns >= size) ?? UNITS.at(-1);
    return `${+(ns / size).toPrecision(3)} ${unit}`;
};
// Rows of [name, number], with bars.
const bars = (id, rows, kind) => {
    const most = Math.max(1, ...rows.map(([, n]) => n));
    fill(id, rows.map(([name, n]) => {
        const bar = made("td", undefined, "bar");
        const line = bar.appendChild(made("i"));
        line.style.width = `${100 * n / most}%`;
        line.hidden = n === 0;
        return [made("td", name, kind), made("td", number(n), "n"), bar];
    }));
};
const fill = (id, rows) => {
    const table = at(id);
    if (rows.length === 0) rows = [[made("td", "none", "none")]];
    table.replaceChildren(...rows.map((cells) => {
        const row = made("tr");
        row.append(...cells);
        return row;
    }));
};
const tiles = (all) => at("tiles").replaceChildren(...all.map(([name, value, bad]) => {
    const tile = made("div", undefined, bad ? "bad" : "");
    tile.append(made("b", value), name);
    return tile;
}));
