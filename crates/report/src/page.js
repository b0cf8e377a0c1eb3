// SPDX-License-Identifier: MIT OR Apache-2.0
// What a page can do beyond being read: tables sort by a click on a heading; charts say their values
// at a place; maps of memory zoom, say what a square is, and list who holds it. Arrow keys do what
// the pointer does. Without script the page shows the same figures and tables.
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

  const page = document.querySelector('main');
  const tip = make('div', '', page);
  tip.className = 'tip';
  tip.hidden = true;
  const show = (text, left, top) => {
    tip.hidden = false;
    tip.textContent = text;
    tip.style.left = `${Math.max(Math.min(left + 12, innerWidth - tip.offsetWidth - 8), 8)}px`;
    tip.style.top = `${Math.min(top + 16, innerHeight - tip.offsetHeight - 8)}px`;
  };
  const hide = () => { tip.hidden = true; };
  addEventListener('keydown', (event) => { if (event.key === 'Escape') hide(); });
  // What the arrow keys choose, for those who do not see the figure.
  const spoken = make('p', '', page);
  spoken.className = 'spoken';
  spoken.setAttribute('aria-live', 'polite');

  // A place in the units of a drawing.
  const within = (svg, event) => new DOMPoint(event.clientX, event.clientY)
    .matrixTransform(svg.getScreenCTM().inverse());
  // Arrow keys go through `count` things, `columns` of them in a row; `choose` is told which.
  const walk = (svg, count, columns, choose) => {
    let chosen = -1;
    const steps = {
      ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -count, End: count,
    };
    svg.tabIndex = 0;
    svg.addEventListener('blur', hide);
    svg.addEventListener('keydown', (event) => {
      if (!(event.key in steps)) return;
      event.preventDefault();
      chosen = Math.min(Math.max(chosen + steps[event.key], 0), count - 1);
      spoken.textContent = choose(chosen);
    });
    return () => chosen;
  };

  for (const svg of document.querySelectorAll('svg[data-at]')) {
    const at = JSON.parse(svg.dataset.at);
    const table = svg.closest('figure').querySelector('details table');
    const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
    const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell, index) =>
      (index ? `${heads[index]}: ` : '') + cell.textContent));
    const mark = document.createElementNS(svg.namespaceURI, 'line');
    mark.setAttribute('class', 'ref');
    mark.setAttribute('y1', 24);
    mark.setAttribute('y2', svg.viewBox.baseVal.height - 40);
    const choose = (index, place) => {
      mark.setAttribute('x1', at[index]);
      mark.setAttribute('x2', at[index]);
      svg.append(mark);
      const text = rows[index].join('\n');
      const on = new DOMPoint(at[index], 40).matrixTransform(svg.getScreenCTM());
      show(text, on.x, place ? place.clientY : on.y);
      return text;
    };
    const leave = () => { hide(); mark.remove(); };
    svg.addEventListener('pointermove', (event) => {
      const x = within(svg, event).x;
      const near = at.reduce((best, own, index) =>
        (Math.abs(own - x) < Math.abs(at[best] - x) ? index : best), 0);
      choose(near, event);
    });
    svg.addEventListener('pointerleave', leave);
    svg.addEventListener('blur', leave);
    walk(svg, at.length, 1, choose);
  }

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
      const place = within(svg, event);
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
      if (index < 0) hide();
      else show([says(index), ...holders(index)].join('\n'), event.clientX, event.clientY);
    });
    svg.addEventListener('pointerleave', hide);

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
    const open = (index) => {
      list.replaceChildren();
      make('b', says(index), list);
      const rows = make('ul', '', list);
      const own = holders(index);
      for (const line of own) make('li', line, rows);
      if (own.length === 0) make('li', map.names ? 'no unmovable page' : 'simulated', rows);
    };
    svg.addEventListener('click', (event) => {
      const index = at(event);
      if (index >= 0 && !(from && from[4])) open(index);
    });
    const chosen = walk(svg, squares.length, map.columns, (index) => {
      const place = new DOMPoint(
        (index % map.columns) * map.cell,
        map.top + Math.floor(index / map.columns) * map.cell,
      ).matrixTransform(svg.getScreenCTM());
      show([says(index), ...holders(index)].join('\n'), place.x, place.y);
      return tip.textContent;
    });
    svg.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && chosen() >= 0) open(chosen());
    });
    svg.addEventListener('dblclick', (event) => {
      const place = within(svg, event);
      zoom(0.5, place.x, place.y);
    });
    make('span', map.names ? 'double click: closer; click: who holds the square' :
      'double click: closer; click: what the square is', bar);
  }
})();
