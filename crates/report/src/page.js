// SPDX-License-Identifier: MIT OR Apache-2.0
// What a page can do beyond being read: tables sort by a click on a heading; maps of memory zoom,
// say what a square is, and list who holds it. Without script the page shows the same figures.
'use strict';
(() => {
  const make = (tag, text, parent) => {
    const node = document.createElement(tag);
    node.textContent = text;
    parent.append(node);
    return node;
  };

  // The number that a cell begins with, in the unit that follows it; texts have none.
  const SCALES = {
    k: 1e3, K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4, ms: 1e-3, min: 60, h: 3600, d: 86400,
  };
  const value = (text) => {
    const plain = text.replace(/(\d)[,\u202f](?=\d{3})/g, '$1');
    const found = /^[<≤~]?\s*([+\-−]?[\d.]+)\s*([a-zA-Z]*)/.exec(plain);
    return found && parseFloat(found[1].replace('−', '-')) * (SCALES[found[2]] || 1);
  };

  const sort = (head) => {
    const column = head.cellIndex;
    const body = head.closest('table').tBodies[0];
    const down = head.getAttribute('aria-sort') !== 'descending';
    for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const rows = [...body.rows].map((row) => {
      const text = row.cells[column].textContent.trim();
      return { row, text, number: value(text) };
    });
    rows.sort((a, b) => {
      // What has no number stands at the end.
      if (a.number === null || b.number === null) {
        if (a.number !== b.number) return a.number === null ? 1 : -1;
        return down ? a.text.localeCompare(b.text) : b.text.localeCompare(a.text);
      }
      return down ? b.number - a.number : a.number - b.number;
    });
    body.append(...rows.map((own) => own.row));
  };

  for (const head of document.querySelectorAll('thead th')) {
    head.tabIndex = 0;
    head.classList.add('sorts');
    head.title = 'sort';
    head.addEventListener('click', () => sort(head));
    head.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      sort(head);
    });
  }

  const bytes = (count) => {
    const units = ['B', 'K', 'M', 'G', 'T'];
    let unit = 0;
    while (count >= 1024 && unit < 4) [count, unit] = [count / 1024, unit + 1];
    return `${+count.toFixed(2)}${units[unit]}`;
  };
  const percent = (share) => `${+(100 * share).toFixed(1)} %`;

  const tip = make('div', '', document.body);
  tip.className = 'tip';
  tip.hidden = true;

  for (const svg of document.querySelectorAll('svg[data-map]')) {
    const map = JSON.parse(svg.dataset.map);
    const squares = map.runs.flatMap(([count, ...own]) => Array(count).fill(own));
    const whole = svg.viewBox.baseVal;
    const [width, height] = [whole.width, whole.height];
    const figure = svg.closest('figure');
    const bar = make('p', '', figure);
    bar.className = 'tools';
    const list = make('div', '', figure);
    list.className = 'square';
    list.setAttribute('aria-live', 'polite');

    const at = (event) => {
      const place = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      const [column, row] = [place.x / map.cell, (place.y - map.top) / map.cell].map(Math.floor);
      const index = row * map.columns + column;
      const inside = column >= 0 && column < map.columns && row >= 0;
      return inside && squares[index] ? index : -1;
    };
    const says = (index) => {
      const [ground, unmovable, polluted] = squares[index];
      const from = map.start + index * map.bytes;
      const parts = [`${bytes(from)} to ${bytes(from + map.bytes)}`];
      if (polluted > 0) parts.push(`polluted ${percent(polluted)}`);
      if (unmovable > 0) parts.push(`unmovable throughout ${percent(unmovable)}`);
      if (polluted + unmovable < 1) parts.push(ground);
      return parts.join(', ');
    };
    const holders = (index) => ((map.squares || {})[index] || [])
      .map(([owner, held]) => `${map.names[owner]}: ${map.unit === 'pages'
        ? bytes(held * 4096) : `${held} ${map.unit}`}`);
    svg.addEventListener('pointermove', (event) => {
      const index = at(event);
      tip.hidden = index < 0;
      if (index < 0) return;
      tip.textContent = [says(index), ...holders(index)].join('\n');
      const left = Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8);
      tip.style.left = `${Math.max(left, 8)}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
    svg.addEventListener('pointerleave', () => { tip.hidden = true; });

    const zoom = (factor, x, y) => {
      const wide = Math.min(width, Math.max(width / 32, whole.width * factor));
      const tall = wide / width * height;
      const clamp = (low, size, most) => Math.min(Math.max(low, 0), most - size);
      whole.x = clamp(x - (x - whole.x) * wide / whole.width, wide, width);
      whole.y = clamp(y - (y - whole.y) * tall / whole.height, tall, height);
      [whole.width, whole.height] = [wide, tall];
    };
    const middle = () => [whole.x + whole.width / 2, whole.y + whole.height / 2];
    const button = (text, name, act) => {
      const own = make('button', text, bar);
      own.setAttribute('aria-label', name);
      own.addEventListener('click', act);
    };
    button('+', 'zoom in', () => zoom(0.5, ...middle()));
    button('−', 'zoom out', () => zoom(2, ...middle()));
    button('whole', 'show the whole map', () => zoom(64, 0, 0));

    let from = null;
    svg.addEventListener('pointerdown', (event) => {
      from = [event.clientX, event.clientY, whole.x, whole.y, false];
    });
    svg.addEventListener('pointermove', (event) => {
      if (!from || !event.buttons || whole.width >= width) return;
      const scale = whole.width / svg.clientWidth;
      const [right, down] = [event.clientX - from[0], event.clientY - from[1]];
      from[4] = from[4] || Math.abs(right) + Math.abs(down) > 4;
      whole.x = Math.min(Math.max(from[2] - right * scale, 0), width - whole.width);
      whole.y = Math.min(Math.max(from[3] - down * scale, 0), height - whole.height);
    });
    svg.addEventListener('click', (event) => {
      const index = at(event);
      if (index < 0 || (from && from[4])) return;
      list.replaceChildren();
      make('b', says(index), list);
      const rows = make('ul', '', list);
      const own = holders(index);
      for (const line of own) make('li', line, rows);
      if (own.length === 0) make('li', map.names ? 'no unmovable page' : 'simulated', rows);
    });
    svg.addEventListener('dblclick', (event) => {
      const place = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      zoom(0.5, place.x, place.y);
    });
    make('span', map.names ? 'double click: closer; click: who holds the square' :
      'double click: closer; click: what the square is', bar);
  }
})();
