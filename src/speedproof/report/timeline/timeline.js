// The timeline of one trace or of several: it unpacks what pftrace.py packed, draws it on canvases, and lets people look
// around in it by mouse, touch and keyboard. No library; the page needs nothing from anywhere.
//
// All times are nanoseconds of a trace. A *view* is a window [from, to] relative to where the first iteration begins, so that
// traces share one when they are on one time scale. Nothing is dropped: what is narrower than a pixel is summed in it, and
// the height of a bar says which share of its pixel is covered.
(() => {
  'use strict';
  const root = document.currentScript.closest('.timeline');
  const find = (name) => root.querySelector(`.timeline-${name}`);
  const settings = JSON.parse(find('settings').textContent);

  const OVERVIEW = 18, RULER = 20, LABEL = 15, GAP = 5; // heights of the head's strips, of a row's label, between rows
  const LANE = {iterations: 16, idle: 24, stream: 24, ranges: 16, operators: 12, calls: 14, system: 12, overhead: 10};
  const NARROW_LANE = 7; // from the fifth lane of a row on
  const FEW_ROWS = 12, LITTLE = 0.002; // rows shown at first: no more than so many, each with events in this share of the loop
  const SHORTEST_VIEW = 20; // ns
  const CLOSE = 4; // pixels within which the pointer finds an event
  const TEXT_ROOM = 26; // pixels that an event needs to be named inside of it
  const APART = 10; // traces whose lengths differ by more than this factor begin on their own scales
  const PHASE_COLOURS = 10, CAUSE_COLOURS = 14;
  const NARROW = 600; // pixels: on a phone the colours' meaning is folded
  const HEAD = 66, TAIL = 14; // characters of a long name on the line that describes an event
  const PAPER = 720; // pixels: the width of a printed page
  const IDLE = 'Click an event to read what it is, or press ↓ in the timeline.';

  // ---- Unpacking -------------------------------------------------------------------------------------------------------

  /** Return the bytes that base64 text stands for. */
  function fromBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const plain = atob(text), bytes = new Uint8Array(plain.length);
    for (let i = 0; i < bytes.length; i++) bytes[i] = plain.charCodeAt(i);
    return bytes;
  }

  /** Unpack one trace: what pftrace.py describes. */
  async function decode(text) {
    const stream = new Blob([fromBase64(text.trim())]).stream().pipeThrough(new DecompressionStream('gzip'));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const trace = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    let at = 4 + length;
    const number = () => { // Products, not shifts: these know 32 bits alone.
      let value = 0, scale = 1;
      for (;;) {
        const byte = bytes[at++];
        value += (byte & 0x7f) * scale;
        if (byte < 0x80) return value;
        scale *= 128;
      }
    };
    for (const row of trace.rows) {
      row.lanes = row.lanes.map((count) => {
        const lane = {count, start: new Float64Array(count), end: new Float64Array(count),
          name: new Uint32Array(count), note: new Uint32Array(count)};
        for (let i = 0; i < count; i++) lane.start[i] = number();
        for (let i = 0, now = 0; i < count; i++) {
          lane.start[i] += now;
          now = lane.end[i] = lane.start[i] + number();
        }
        for (let i = 0; i < count; i++) lane.name[i] = number();
        for (let i = 0; i < count; i++) lane.note[i] = number();
        return lane;
      });
    }
    return trace;
  }

  // ---- Words -----------------------------------------------------------------------------------------------------------

  const UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

  /** Write a time in the unit that fits, with three digits: 42.0 ms, 3.61 µs. */
  function describeTime(ns) {
    const [scale, unit] = UNITS.find(([scale]) => Math.abs(ns) >= scale * 0.9995) ?? UNITS[3];
    const value = ns / scale, size = Math.abs(value);
    const digits = scale === 1 ? 0 : size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    return `${value.toFixed(digits)}\u00a0${unit}`;
  }

  /** Return what is to be said of an event. */
  function describeEvent(variant, {row, lane, index}) {
    const {trace} = variant, {name, note, start, end} = lane;
    const length = describeTime(end[index] - start[index]);
    const at = `${describeTime(start[index] - trace.start)} after the first ${settings.unit} began`;
    const why = trace.names[note[index]];
    const group = trace.groups[name[index]];
    if (row.kind === 'idle')
      return {title: trace.names[name[index]], parts: [length, why, settings.meanings[trace.names[name[index]]], at]};
    const because = row.kind === 'stream' && why ? `caused by ${why}` : why;
    return {title: trace.names[name[index]] || 'without a name', parts: [length, because, group, row.label, at]};
  }

  /** Return what is said of an event on one line; a long name loses its middle, so that what follows it is seen. */
  function sentence({title, parts}) {
    const name = title.length > HEAD + TAIL ? `${title.slice(0, HEAD)}…${title.slice(-TAIL)}` : title;
    return [name, ...parts.filter(Boolean)].join(' · ');
  }

  /** Write a share in percent, as tables have it. */
  const describeShare = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`;

  // ---- Searching -------------------------------------------------------------------------------------------------------

  /** Return the first index from which on all values of a sorted array are greater than `value`. */
  function after(sorted, value) {
    let low = 0, high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] > value) high = middle; else low = middle + 1;
    }
    return low;
  }

  /** Return the stretches in which no kernel runs, the longest first: pieces of different causes that touch are one. */
  function listGaps(trace) {
    const row = trace.rows.find(({kind}) => kind === 'idle');
    if (!row) return [];
    const gaps = [], [lane] = row.lanes;
    for (let first = 0, next; first < lane.count; first = next) {
      for (next = first + 1; next < lane.count && lane.start[next] === lane.end[next - 1];) next++;
      gaps.push({row, lane, first, next, start: lane.start[first], end: lane.end[next - 1]});
    }
    return gaps.sort((a, b) => (b.end - b.start) - (a.end - a.start) || a.start - b.start);
  }

  /** Return the cause that fills most of a gap, with its detail: its longest piece, how many it has, how long they are in all. */
  function findMainCause({lane, first, next}) {
    const causes = new Map();
    for (let i = first; i < next; i++) {
      const key = `${lane.name[i]} ${lane.note[i]}`, length = lane.end[i] - lane.start[i];
      const cause = causes.get(key) ?? {filled: 0, pieces: 0, longest: -1};
      if (length > cause.longest) Object.assign(cause, {longest: length, index: i});
      cause.filled += length;
      cause.pieces++;
      causes.set(key, cause);
    }
    return [...causes.values()].reduce((most, cause) => (cause.filled > most.filled ? cause : most));
  }

  // ---- Colours ---------------------------------------------------------------------------------------------------------

  /** Return what a colour of the style sheet is now, as the canvas wants it, and whether dark text is read on it. */
  function readColour(name) {
    const probe = find('probe');
    probe.style.color = `var(--timeline-${name})`;
    const fill = getComputedStyle(probe).color;
    const [r, g, b] = (fill.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
    return {fill, text: 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#000' : '#fff'};
  }

  /**
   * Choose the colours: idle stretches have their cause's. Ranges and, so that one sees whose work the GPU does, kernels have
   * their phase's; or kernels have that of what they compute. Phases that are known have colours of their own, the others get
   * what is left, those that take most time first.
   */
  class Palette {
    constructor(traces) {
      this.byKind = false;
      const phases = sumTimes(traces, (row) => row.kind === 'ranges', (lane) => lane.name, 'names');
      for (const trace of traces) trace.names.forEach((name, i) => { if (trace.groups[i] === settings.iteration) phases.delete(name); });
      const kernels = sumTimes(traces, (row) => row.kind === 'stream', (lane) => lane.note, 'names');
      const groups = sumTimes(traces, (row) => row.kind === 'stream', (lane) => lane.name, 'groups');
      groups.delete(settings.copy);
      this.hasPhases = [...kernels.keys()].some(Boolean);
      this.byKind = !this.hasPhases;
      // A phase that causes work of the GPU matters more than a range that lasts long, as an epoch does.
      const weight = new Map([...phases].map(([name, time]) => [name, time]));
      for (const [name, time] of kernels) if (name) weight.set(name, 1e18 + time);
      this.phases = assign(weight, settings.phases, 'phase', PHASE_COLOURS);
      this.groups = assign(groups, [], 'phase', PHASE_COLOURS);
      this.refresh();
    }

    /** Read the style sheet again, as after a change from light to dark. */
    refresh() {
      const names = ['text', 'faint', 'line', 'back', 'lane', 'accent', 'none', 'copy', 'call', 'wait', 'operator', 'overhead',
        'iteration'];
      for (let i = 1; i <= PHASE_COLOURS; i++) names.push(`phase-${i}`);
      for (let i = 1; i <= CAUSE_COLOURS; i++) names.push(`cause-${i}`);
      this.names = names;
      this.colours = names.map(readColour);
      this.number = new Map(names.map((name, i) => [name, i]));
    }

    get(name) { return this.colours[this.number.get(name)].fill; }

    /** Return, for each name's number, the number of its colour; for kernels it may be the note that decides. */
    tabulate(trace, kind) {
      const of = (name) => this.number.get(name);
      const choose = {
        iterations: () => 'iteration',
        idle: (name) => `cause-${(settings.causes.indexOf(name) % CAUSE_COLOURS) + 1}`,
        ranges: (name, group) => (group === settings.iteration ? 'iteration' : this.phases.get(name) ?? 'none'),
        operators: () => 'operator',
        calls: (name, group) => (group === settings.wait ? 'wait' : 'call'),
        system: () => 'wait',
        overhead: () => 'overhead',
        stream: (name, group) => (group === settings.copy ? 'copy' : this.groups.get(group) ?? 'none'),
      }[kind];
      return Uint8Array.from(trace.names, (name, i) => of(choose(name, trace.groups[i])));
    }

    /** Return what the colours mean, for the legend. */
    legend(traces) {
      const present = (kind) => new Set(traces.flatMap((trace) => trace.rows.filter((row) => row.kind === kind)
        .flatMap((row) => row.lanes.flatMap((lane) => [...new Set(lane.name)].map((n) => trace.names[n])))));
      const idle = present('idle'), kinds = new Set(traces.flatMap((trace) => trace.rows.map(({kind}) => kind)));
      const work = this.byKind ? this.groups : this.phases;
      const keys = [[this.byKind ? 'kernels' : 'phases and their kernels',
        [...work].map(([name, colour]) => [name, colour])]];
      const rest = [];
      if (kinds.has('stream')) rest.push([this.byKind ? 'other kernels' : 'kernels of no phase, other ranges', 'none'],
        [settings.copy, 'copy']);
      else rest.push(['other ranges', 'none']);
      if (kinds.has('calls')) rest.push(['CUDA call', 'call'], ['call that may wait', 'wait']);
      if (kinds.has('operators')) rest.push(['operator', 'operator']);
      keys.push(['else', rest]);
      const causes = settings.causes.filter((cause) => idle.has(cause));
      if (causes.length) keys.push(['idle, because',
        causes.map((cause) => [cause, `cause-${(settings.causes.indexOf(cause) % CAUSE_COLOURS) + 1}`])]);
      return keys;
    }
  }

  /** Return how long what has each name, or each name's group, lasts in the loop. */
  function sumTimes(traces, wanted, column, words) {
    const sums = new Map();
    for (const trace of traces) {
      const times = new Float64Array(trace.names.length);
      for (const row of trace.rows.filter(wanted))
        for (const lane of row.lanes) {
          const names = column(lane);
          for (let i = 0; i < lane.count; i++)
            if (lane.start[i] >= trace.start && lane.start[i] < trace.end) times[names[i]] += lane.end[i] - lane.start[i];
        }
      times.forEach((time, i) => { if (time) sums.set(trace[words][i], (sums.get(trace[words][i]) ?? 0) + time); });
    }
    return sums;
  }

  /** Give colours to names: its own place to each known one, what is left to the others, the greatest first. */
  function assign(weights, known, prefix, count) {
    const chosen = new Map();
    known.forEach((name, i) => { if (weights.has(name)) chosen.set(name, `${prefix}-${i + 1}`); });
    const taken = new Set(chosen.values());
    const free = Array.from({length: count}, (_, i) => `${prefix}-${i + 1}`).filter((colour) => !taken.has(colour));
    const others = [...weights.keys()].filter((name) => name && !chosen.has(name)).sort((a, b) => weights.get(b) - weights.get(a));
    others.slice(0, free.length).forEach((name, i) => chosen.set(name, free[i]));
    return chosen;
  }

  // ---- One trace on the screen -----------------------------------------------------------------------------------------

  class Variant {
    constructor(element, trace, app) {
      Object.assign(this, {element, trace, app, selected: null, shown: null});
      this.scroller = element.querySelector('.timeline-view');
      this.sheet = element.querySelector('.timeline-sheet');
      this.canvas = element.querySelector('canvas');
      this.tip = element.querySelector('.timeline-tip');
      this.more = element.querySelector('.timeline-more');
      const lanes = trace.rows.flatMap((row) => row.lanes).filter((lane) => lane.count);
      this.first = lanes.reduce((least, lane) => Math.min(least, lane.start[0]), trace.start) - trace.start;
      this.last = lanes.reduce((most, lane) => Math.max(most, lane.end[lane.count - 1]), trace.end) - trace.start;
      this.length = trace.end - trace.start;
      this.gaps = listGaps(trace);
      this.gap = -1;
      this.matches = null; // which names are searched for
      this.busiest = trace.rows.filter((row) => this.covers(row) >= LITTLE * this.length).slice(0, FEW_ROWS);
      this.allRows = trace.rows.length <= this.busiest.length + 1;
      this.recolour();
      this.arrange();
    }

    recolour() {
      const {palette} = this.app;
      for (const row of this.trace.rows) row.colours = palette.tabulate(this.trace, row.kind);
      this.noteColours = Uint8Array.from(this.trace.names, (name) => palette.number.get(palette.phases.get(name) ?? 'none'));
      this.strip = null;
    }

    /** Find each lane's place on the sheet, from its top. */
    arrange() {
      const rows = this.allRows ? this.trace.rows : this.busiest;
      let y = 2;
      this.places = [];
      for (const row of rows) {
        row.top = y;
        y += LABEL;
        row.lanes.forEach((lane, depth) => {
          const height = depth < 4 ? LANE[row.kind] - (depth && row.kind === 'stream' ? 14 : 0) : NARROW_LANE;
          this.places.push({row, lane, y, height});
          y += height + 1;
        });
        y += GAP;
      }
      this.rows = rows;
      this.height = y;
      this.sheet.style.height = `${OVERVIEW + RULER + y}px`;
      this.more.hidden = this.allRows;
      const count = this.trace.rows.length;
      this.more.textContent = this.app.printing ? `${rows.length} of ${count} rows` : `Show all ${count} rows`;
    }

    /** Return how long the events of a row's first lane last inside of the loop. */
    covers({lanes: [lane]}) {
      const {start, end} = this.trace;
      let sum = 0;
      for (let i = after(lane.end, start); i < lane.count && lane.start[i] < end; i++)
        sum += Math.min(lane.end[i], end) - Math.max(lane.start[i], start);
      return sum;
    }

    get view() { return this.app.viewOf(this); }

    /** Return the time, relative to the first iteration, at a distance from the canvas' left. */
    timeAt(x) { return this.view.from + (x / this.width) * (this.view.to - this.view.from); }

    draw() {
      const {printing} = this.app;
      this.width = printing ? PAPER : this.scroller.clientWidth;
      if (!this.width) return; // inside a folded section
      const ratio = printing ? 2 : window.devicePixelRatio || 1;
      const visible = printing ? OVERVIEW + RULER + this.height : this.scroller.clientHeight;
      const [width, height] = [Math.round(this.width * ratio), Math.round(visible * ratio)];
      if (this.canvas.width !== width || this.canvas.height !== height) {
        Object.assign(this.canvas, {width, height});
        Object.assign(this.canvas.style, {width: `${this.width}px`, height: `${visible}px`});
        this.strip = null;
      }
      const pen = this.pen = this.canvas.getContext('2d');
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.fillStyle = this.app.palette.get('back');
      pen.fillRect(0, 0, this.width, visible);
      this.ratio = ratio;
      pen.textBaseline = 'middle';
      const scroll = printing ? 0 : this.scroller.scrollTop, head = OVERVIEW + RULER;
      pen.save();
      pen.beginPath();
      pen.rect(0, head, this.width, visible - head);
      pen.clip();
      this.drawIterations(visible);
      for (const row of this.rows) {
        const y = row.top + head - scroll;
        if (y > visible) break;
        this.write(row.label, 4, y + LABEL / 2, this.width - 8, this.app.palette.get('text'), '600 11px system-ui, sans-serif');
      }
      for (const place of this.places) {
        const y = place.y + head - scroll;
        if (y + place.height >= head && y <= visible) this.drawLane(place, y);
      }
      this.drawSelection(head - scroll);
      pen.restore();
      this.drawRuler();
      this.drawOverview();
    }

    /** Draw a line where each iteration begins, as long as they are few. */
    drawIterations(bottom) {
      const lane = this.trace.rows.find(({kind}) => kind === 'iterations')?.lanes[0];
      if (!lane) return;
      const {from, to} = this.view, first = after(lane.end, from + this.trace.start);
      const last = after(lane.start, to + this.trace.start);
      if (last - first > this.width / 12) return;
      this.pen.fillStyle = this.app.palette.get('line');
      for (let i = first; i < last; i++) {
        const x = (lane.start[i] - this.trace.start - from) / (to - from) * this.width;
        this.pen.fillRect(Math.round(x), OVERVIEW + RULER, 1, bottom);
      }
    }

    drawLane({row, lane, height}, y) {
      const {pen, ratio, app: {palette}} = this;
      pen.fillStyle = palette.get('lane');
      pen.fillRect(0, y, this.width, height);
      const window_ = {from: this.view.from + this.trace.start, to: this.view.to + this.trace.start};
      const named = this.sumPixels(row, lane, window_, Math.round(this.width * ratio), (first, count, share, colour) => {
        const tall = Math.max(share * height, 1);
        pen.fillStyle = palette.colours[colour].fill;
        pen.fillRect(first / ratio, y + height - tall, count / ratio, tall);
      });
      if (height < 12) return;
      for (const {index, x, wide, colour} of named) {
        const left = Math.max(x / ratio, 0), right = Math.min((x + wide) / ratio, this.width);
        if (right - left < TEXT_ROOM) continue;
        pen.fillStyle = palette.get('back'); // a line between neighbours of one colour
        pen.fillRect(x / ratio, y, 1 / ratio, height);
        const name = this.trace.names[lane.name[index]];
        const text = row.kind === 'idle' && lane.note[index] ? `${name}: ${this.trace.names[lane.note[index]]}` : name;
        this.write(text, left + 4, y + height / 2 + 0.5, right - left - 6, palette.colours[colour].text);
      }
    }

    /** Return the number of an event's colour. */
    colourOf(row, lane, i) {
      if (row.kind === 'stream' && !this.app.palette.byKind && this.trace.groups[lane.name[i]] !== settings.copy)
        return this.noteColours[lane.note[i]];
      return row.colours[lane.name[i]];
    }

    /**
     * Sum a lane's events by pixels: call `emit(first pixel, how many, share covered, colour)` from left to right, once for
     * neighbours that are covered whole in one colour. A pixel's colour is the one that covers most of it. Where something is
     * searched for, what is found outweighs the rest, which is grey. Returns the events that are wide enough for a name.
     */
    sumPixels(row, lane, {from, to}, pixels, emit) {
      const scale = pixels / (to - from), {start, end, name, note} = lane, {matches} = this;
      const grey = this.app.palette.number.get('faint'), weights = this.weights ??= new Float64Array(64);
      const named = [], colours = row.colours, byNote = row.kind === 'stream' && !this.app.palette.byKind;
      const copy = this.copyColour = this.app.palette.number.get('copy');
      let pixel = -1, covered = 0, used = [], runFrom = 0, runTo = 0, runColour = -1;
      const put = (first, count, share, colour) => {
        if (share > 0.98) {
          if (runColour === colour && runTo === first) { runTo += count; return; }
          if (runColour >= 0) emit(runFrom, runTo - runFrom, 1, runColour);
          [runFrom, runTo, runColour] = [first, first + count, colour];
          return;
        }
        if (runColour >= 0) emit(runFrom, runTo - runFrom, 1, runColour);
        runColour = -1;
        emit(first, count, share, colour);
      };
      const flush = () => {
        if (!used.length) return;
        let best = used[0];
        for (const colour of used) if (weights[colour] > weights[best]) best = colour;
        put(pixel, 1, Math.min(covered, 1), best);
        for (const colour of used) weights[colour] = 0;
        used = [];
        covered = 0;
      };
      const add = (at, share, colour, weight) => {
        if (at !== pixel) { flush(); pixel = at; }
        if (!weights[colour]) used.push(colour);
        weights[colour] += (share + 1e-9) * weight;
        covered += share;
      };
      for (let i = after(end, from); i < lane.count && start[i] < to; i++) {
        let colour = byNote && colours[name[i]] !== copy ? this.noteColours[note[i]] : colours[name[i]], weight = 1;
        if (matches) { if (matches[name[i]] || matches[note[i]]) weight = 1e6; else colour = grey; }
        const x0 = Math.max((start[i] - from) * scale, 0), x1 = Math.min((end[i] - from) * scale, pixels);
        const p0 = Math.floor(x0), p1 = Math.floor(x1);
        if (p0 >= pixels) break;
        if (p0 === p1) { add(p0, x1 - x0, colour, weight); continue; }
        add(p0, p0 + 1 - x0, colour, weight);
        if (p1 - p0 > 1) { flush(); put(p0 + 1, p1 - p0 - 1, 1, colour); }
        if (p1 < pixels && x1 > p1) add(p1, x1 - p1, colour, weight);
        if (x1 - x0 > TEXT_ROOM * this.ratio) named.push({index: i, x: x0, wide: x1 - x0, colour});
      }
      flush();
      if (runColour >= 0) emit(runFrom, runTo - runFrom, 1, runColour);
      return named;
    }

    /** Write text into a width: cut where it does not fit. */
    write(text, x, y, room, colour, font = '11px system-ui, sans-serif') {
      const {pen} = this;
      pen.font = font;
      pen.fillStyle = colour;
      const letters = Math.floor(room / 5.6); // about as wide as a letter; measured only where it could matter
      let shown = text;
      if (text.length > letters || pen.measureText(text).width > room) {
        shown = text.slice(0, Math.max(letters, 0));
        while (shown && pen.measureText(`${shown}…`).width > room) shown = shown.slice(0, -1);
        if (shown.length < 3) return;
        shown += '…';
      }
      pen.fillText(shown, x, y);
    }

    drawRuler() {
      const {pen, width, app: {palette}} = this, {from, to} = this.view;
      pen.fillStyle = palette.get('back');
      pen.fillRect(0, OVERVIEW, width, RULER);
      const ticks = Math.max(2, Math.floor(width / 110));
      const rough = (to - from) / ticks, power = 10 ** Math.floor(Math.log10(rough));
      const step = Math.max(1, [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough));
      const [scale, unit] = UNITS.find(([scale]) => Math.max(Math.abs(from), Math.abs(to)) >= scale) ?? UNITS[3];
      const digits = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
      for (let time = Math.ceil(from / step) * step; time <= to; time += step) {
        const x = (time - from) / (to - from) * width;
        pen.fillStyle = palette.get('line');
        pen.fillRect(Math.round(x), OVERVIEW + RULER - 5, 1, 5);
        const text = `${(time / scale).toFixed(digits)} ${unit}`;
        this.write(text, x + 3, OVERVIEW + 9, 106, palette.get('text'));
      }
      pen.fillStyle = palette.get('line');
      pen.fillRect(0, OVERVIEW + RULER - 1, width, 1);
    }

    /** Draw the whole trace in a strip, and the view's place in it. */
    drawOverview() {
      const {pen, width, app: {palette}} = this, {from, to} = this.view, [first, last] = this.app.extent(this);
      if (!this.strip) this.strip = this.sumOverview(first, last);
      pen.fillStyle = palette.get('lane');
      pen.fillRect(0, 0, width, OVERVIEW);
      for (const [x, count, share, colour] of this.strip) {
        pen.fillStyle = palette.colours[colour].fill;
        pen.fillRect(x / this.ratio, OVERVIEW - 2 - share * (OVERVIEW - 4), count / this.ratio, Math.max(share * (OVERVIEW - 4), 1));
      }
      const x0 = (from - first) / (last - first) * width, x1 = Math.max((to - first) / (last - first) * width, x0 + 2);
      pen.globalAlpha = 0.55;
      pen.fillStyle = palette.get('back');
      pen.fillRect(0, 0, x0, OVERVIEW);
      pen.fillRect(x1, 0, width - x1, OVERVIEW);
      pen.globalAlpha = 1;
      pen.strokeStyle = palette.get('accent');
      pen.lineWidth = 1.5;
      pen.strokeRect(x0 + 0.75, 0.75, Math.max(x1 - x0 - 1.5, 1), OVERVIEW - 1.5);
    }

    sumOverview(first, last) {
      const strip = [], {start} = this.trace;
      const row = this.trace.rows.find(({kind}) => kind === 'stream') ?? this.trace.rows.find(({kind}) => kind === 'ranges');
      const window_ = {from: first + start, to: last + start};
      if (row) this.sumPixels(row, row.lanes[0], window_, this.canvas.width, (...piece) => strip.push(piece));
      return strip;
    }

    drawSelection(offset) {
      for (const [event, wide] of [[this.shown, 1], [this.selected, 2]]) {
        const place = event && this.places.find(({lane}) => lane === event.lane);
        if (!place) continue;
        const {from, to} = this.view, {lane, index} = event, scale = this.width / (to - from);
        const x0 = (lane.start[index] - this.trace.start - from) * scale, x1 = (lane.end[index] - this.trace.start - from) * scale;
        this.pen.strokeStyle = this.app.palette.get(wide > 1 ? 'accent' : 'text');
        this.pen.lineWidth = wide;
        const left = Math.max(x0, -4);
        this.pen.strokeRect(left - wide / 2, place.y + offset - wide / 2, Math.max(Math.min(x1, this.width + 4) - left, 1) + wide,
          place.height + wide);
      }
    }

    /** Return the event at a point of the canvas, and how many share its pixel; null where there is none. */
    eventAt(x, y) {
      const sheetY = y - OVERVIEW - RULER + this.scroller.scrollTop;
      if (y < OVERVIEW + RULER) return null;
      const place = this.places.find((one) => sheetY >= one.y && sheetY <= one.y + one.height);
      return place ? this.nearest(place, this.timeAt(x), this.timeAt(CLOSE) - this.timeAt(0)) : null;
    }

    /** Return the event of a lane that is closest to a time, no farther than `reach` from it. */
    nearest({row, lane}, time, reach) {
      const at = time + this.trace.start, next = after(lane.end, at);
      let best = null, least = reach;
      for (const index of [next, next - 1]) {
        if (index < 0 || index >= lane.count) continue;
        const distance = Math.max(lane.start[index] - at, at - lane.end[index], 0);
        if (distance <= least) { best = {row, lane, index}; least = distance - 1e-9; }
      }
      if (best) {
        const pixel = this.timeAt(1) - this.timeAt(0);
        best.beside = Math.max(after(lane.start, at + pixel / 2) - after(lane.end, at - pixel / 2) - 1, 0);
      }
      return best;
    }

    /** Scroll and move the view so that a selected event is seen. */
    reveal({lane, index}) {
      let place = this.places.find((one) => one.lane === lane);
      if (!place) {
        this.allRows = true;
        this.arrange();
        place = this.places.find((one) => one.lane === lane);
      }
      const room = this.scroller.clientHeight - OVERVIEW - RULER, top = this.scroller.scrollTop;
      if (place.y - LABEL < top) this.scroller.scrollTop = place.y - LABEL - 2;
      else if (place.y + place.height + 6 > top + room) this.scroller.scrollTop = place.y + place.height + 6 - room;
      const {from, to} = this.view, begin = lane.start[index] - this.trace.start, end = lane.end[index] - this.trace.start;
      if (end < from || begin > to) this.app.show(this, (begin + end) / 2 - (to - from) / 2, (begin + end) / 2 + (to - from) / 2);
    }
  }

  // ---- All of it -------------------------------------------------------------------------------------------------------

  class App {
    constructor(traces) {
      this.palette = new Palette(traces);
      const elements = [...root.querySelectorAll('.timeline-variant')];
      this.variants = traces.map((trace, i) => new Variant(elements[i], trace, this));
      this.active = this.variants[0];
      const lengths = this.variants.map((variant) => variant.length);
      this.linked = Math.max(...lengths) <= APART * Math.min(...lengths);
      this.views = new Map();
      this.fit();
      this.fillTools();
      find('colour-key').open = root.clientWidth > NARROW;
      this.variants.forEach((variant) => this.listen(variant));
      const drawAll = () => this.redraw();
      new ResizeObserver(drawAll).observe(root);
      const recolour = () => { this.palette.refresh(); this.recolour(); };
      matchMedia('(prefers-color-scheme: dark)').addEventListener('change', recolour);
      matchMedia('print').addEventListener('change', ({matches}) => this.print(matches));
      new MutationObserver(recolour).observe(document.documentElement, {attributes: true});
      addEventListener('beforeprint', () => this.print(true));
      addEventListener('afterprint', () => this.print(false));
      this.drawNow();
    }

    /** Draw for paper, all shown rows at once and light, or again for the screen; a printing browser does not wait for a frame. */
    print(printing) {
      this.printing = printing;
      root.style.colorScheme = printing ? 'light' : '';
      this.palette.refresh();
      this.variants.forEach((variant) => variant.arrange());
      this.recolour();
      this.drawNow();
    }

    // Views

    viewOf(variant) { return this.views.get(this.linked ? this.variants[0] : variant); }

    /** Return how far a variant's view may reach: over all traces where they share it. */
    extent(variant) {
      const variants = this.linked ? this.variants : [variant];
      return [Math.min(...variants.map(({first}) => first)), Math.max(...variants.map(({last}) => last))];
    }

    /** Move a variant's view, inside of what there is. */
    show(variant, from, to) {
      const [first, last] = this.extent(variant);
      const length = Math.min(Math.max(to - from, SHORTEST_VIEW), last - first), middle = (from + to) / 2;
      const begin = Math.min(Math.max(middle - length / 2, first), last - length);
      this.views.set(this.linked ? this.variants[0] : variant, {from: begin, to: begin + length});
      for (const one of this.variants) one.tip.hidden = true; // what lies below the pointer now is something else
      this.redraw();
    }

    /** Show all iterations. */
    fit(variant) {
      const longest = Math.max(...this.variants.map(({length}) => length));
      for (const one of variant && !this.linked ? [variant] : this.variants) this.show(one, 0, this.linked ? longest : one.length);
    }

    zoom(variant, factor, x = variant.width / 2) {
      const {from, to} = this.viewOf(variant), at = variant.timeAt(x);
      this.show(variant, at - (at - from) * factor, at + (to - at) * factor);
    }

    pan(variant, share) {
      const {from, to} = this.viewOf(variant), by = (to - from) * share;
      this.show(variant, from + by, to + by);
    }

    redraw() {
      if (this.waiting) return;
      this.waiting = requestAnimationFrame(() => this.drawNow());
    }

    drawNow() {
      cancelAnimationFrame(this.waiting);
      this.waiting = 0;
      this.variants.forEach((variant) => variant.draw());
      const {from, to} = this.viewOf(this.active);
      root.dataset.view = `${Math.round(from)} ${Math.round(to)}`;
    }

    recolour() {
      this.variants.forEach((variant) => variant.recolour());
      this.fillLegend();
      this.redraw();
    }

    // Tools

    fillTools() {
      const on = (name, event, act) => find(name)?.addEventListener(event, act);
      on('in', 'click', () => this.zoom(this.active, 0.5));
      on('out', 'click', () => this.zoom(this.active, 2));
      on('fit', 'click', () => this.fit());
      on('next', 'click', () => this.goToGap(1));
      on('previous', 'click', () => this.goToGap(-1));
      on('search', 'input', () => this.search(find('search').value));
      on('search', 'keydown', (event) => {
        if (event.key === 'Enter') { event.preventDefault(); this.goToMatch(event.shiftKey ? -1 : 1); }
        if (event.key === 'Escape') { find('search').value = ''; this.search(''); }
      });
      on('scale', 'change', (event) => this.link(event.target.checked));
      on('colours', 'change', (event) => { this.palette.byKind = event.target.value === 'kind'; this.recolour(); });
      on('go', 'change', (event) => { this.goTo(event.target.value); event.target.value = ''; });
      const scale = find('scale');
      scale.checked = this.linked;
      scale.closest('label').hidden = this.variants.length < 2;
      find('colours').closest('label').hidden = !this.palette.hasPhases;
      for (const name of ['next', 'previous']) find(name).hidden = !this.variants.some((variant) => variant.gaps.length);
      this.fillPlaces();
      this.fillLegend();
      for (const button of root.querySelectorAll('[data-gap]'))
        button.addEventListener('click', () => {
          this.active = this.variants[Number(button.dataset.variant)];
          this.goToGap(0, Number(button.dataset.gap));
          this.active.scroller.focus();
        });
    }

    /** Offer the iterations to go to, of the variant that has most. */
    fillPlaces() {
      const go = find('go'), longest = this.variants.map((variant) => variant.trace.rows.find(({kind}) => kind === 'iterations').lanes[0].count);
      const count = Math.min(Math.max(...longest), 200);
      go.replaceChildren(new Option('go to …', ''), new Option('everything recorded', 'all'), new Option(`all ${settings.units}`, 'fit'));
      for (let i = 0; i < count; i++) go.add(new Option(`${settings.unit} ${i + 1}`, String(i)));
    }

    goTo(place) {
      const variant = this.active;
      if (place === 'all') this.show(variant, ...this.extent(variant));
      else if (place === 'fit') this.fit(variant);
      else if (place !== '') {
        for (const one of this.linked ? [variant] : this.variants) {
          const [lane] = one.trace.rows.find(({kind}) => kind === 'iterations').lanes, i = Number(place);
          if (i < lane.count) this.show(one, lane.start[i] - one.trace.start, lane.end[i] - one.trace.start);
        }
      }
    }

    fillLegend() {
      find('legend').replaceChildren(...this.palette.legend(this.variants.map(({trace}) => trace)).map(([title, entries]) => {
        const list = document.createElement('ul');
        list.setAttribute('aria-label', title);
        list.append(...[[`${title}:`, null], ...entries].map(([name, colour]) => {
          const item = document.createElement('li');
          if (colour) {
            const swatch = document.createElement('span');
            swatch.className = 'timeline-swatch';
            swatch.style.background = `var(--timeline-${colour})`;
            item.append(swatch);
          }
          item.append(name);
          return item;
        }));
        return list;
      }));
    }

    link(linked) {
      const view = {...this.viewOf(this.active)};
      this.linked = linked;
      this.variants.forEach((variant) => { variant.strip = null; });
      if (linked) this.show(this.variants[0], view.from, view.to);
      else for (const variant of this.variants) this.show(variant, 0, variant.length);
    }

    say(text) { find('status').textContent = text; }

    select(variant, event) {
      this.active = variant;
      for (const one of this.variants) one.selected = one === variant ? event : null;
      if (event) {
        variant.reveal(event);
        this.say(`${this.variants.length > 1 ? `${variant.trace.title}: ` : ''}${sentence(describeEvent(variant, event))}`);
      } else this.say(IDLE);
      this.redraw();
    }

    /** Go to the next longest stretch without a kernel of the variant that was looked at last, or to one by its place. */
    goToGap(step, place) {
      const variant = this.active.gaps.length ? this.active : this.variants.find(({gaps}) => gaps.length);
      if (!variant) return this.say('The GPU is never idle, or there is none.');
      const count = variant.gaps.length;
      variant.gap = place ?? (((variant.gap < 0 && step < 0 ? 0 : variant.gap) + step) % count + count) % count;
      const gap = variant.gaps[variant.gap], length = gap.end - gap.start, begin = gap.start - variant.trace.start;
      const {index, filled, pieces, longest} = findMainCause(gap), piece = {row: gap.row, lane: gap.lane, index};
      const {title, parts: [, ...why]} = describeEvent(variant, piece);
      if (pieces > 1) why.push(`${pieces} pieces, the longest ${describeTime(longest)}`);
      this.show(variant, begin - length, begin + 2 * length);
      this.select(variant, piece);
      this.say(`Gap ${variant.gap + 1} of ${count}, ${describeTime(length)} without a kernel${this.variants.length > 1 ? ` in ${variant.trace.title}` : ''}: ${describeShare(filled / length)} of it ${sentence({title, parts: why})}`);
    }

    /** Mark all events whose name, or whose note, contains the text; letters of either case are alike. */
    search(text) {
      const wanted = text.trim().toLowerCase();
      let count = 0, time = 0;
      for (const variant of this.variants) {
        variant.strip = null;
        variant.found = [];
        variant.at = -1;
        variant.matches = wanted ? Uint8Array.from(variant.trace.names, (name) => name.toLowerCase().includes(wanted)) : null;
        if (!wanted) continue;
        for (const row of variant.trace.rows)
          for (const lane of row.lanes)
            for (let index = 0; index < lane.count; index++)
              if (variant.matches[lane.name[index]] || variant.matches[lane.note[index]]) {
                variant.found.push({row, lane, index});
                time += lane.end[index] - lane.start[index];
              }
        variant.found.sort((a, b) => a.lane.start[a.index] - b.lane.start[b.index]);
        count += variant.found.length;
      }
      find('found').textContent = wanted ? `${count} found, ${describeTime(time)} in total` : '';
      this.redraw();
    }

    /** Select the next event that was found, in the variant that was looked at last if it has any. */
    goToMatch(step) {
      const variant = this.active.found?.length ? this.active : this.variants.find(({found}) => found?.length);
      if (!variant) return;
      if (variant.at < 0 && step > 0) { // the first that is in view, or behind it
        const from = this.viewOf(variant).from + variant.trace.start;
        variant.at = variant.found.findIndex(({lane, index}) => lane.end[index] >= from) - 1;
        if (variant.at < -1) variant.at = -1;
      }
      variant.at = ((variant.at < 0 && step < 0 ? 0 : variant.at) + step + variant.found.length) % variant.found.length;
      this.zoomTo(variant, variant.found[variant.at]);
      const {lane, index} = variant.found[variant.at];
      find('found').textContent = `${variant.at + 1} of ${variant.found.length}: ${describeTime(lane.end[index] - lane.start[index])}`;
    }

    /** Show an event with what lies around it, or, always, as large as it can be; else one that is seen well stays there. */
    zoomTo(variant, event, always = false) {
      const begin = event.lane.start[event.index] - variant.trace.start, end = event.lane.end[event.index] - variant.trace.start;
      const {from, to} = this.viewOf(variant), length = Math.max(end - begin, SHORTEST_VIEW);
      const seen = begin >= from && end <= to && length > (to - from) / 50;
      const around = (always ? 0.1 : 2) * length;
      if (always || !seen) this.show(variant, begin - around, end + around);
      this.select(variant, event);
    }

    // Mouse, touch, keyboard

    listen(variant) {
      const {scroller, canvas} = variant, pointers = new Map();
      const place = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
      let dragged = 0, strip = false, spread = 0;
      scroller.addEventListener('scroll', () => this.redraw());
      scroller.addEventListener('focus', () => { this.active = variant; });
      scroller.addEventListener('wheel', (event) => this.onWheel(variant, event, place(event)[0]), {passive: false});
      canvas.addEventListener('pointerdown', (event) => {
        this.active = variant;
        const [x, y] = place(event);
        pointers.set(event.pointerId, [x, y]);
        dragged = 0;
        strip = y < OVERVIEW;
        if (strip) this.centre(variant, x);
        spread = 0;
        try { canvas.setPointerCapture(event.pointerId); } catch { /* the pointer is gone already */ }
      });
      canvas.addEventListener('pointermove', (event) => {
        const [x, y] = place(event), before = pointers.get(event.pointerId);
        if (!before) return this.hover(variant, x, y);
        pointers.set(event.pointerId, [x, y]);
        const [one, other] = [...pointers.values()];
        if (strip) return this.centre(variant, x);
        dragged += Math.abs(x - before[0]) + Math.abs(y - before[1]);
        if (dragged < 4) return;
        this.hover(variant, -1, -1);
        if (other) { // two fingers: what lies between them stays there
          const now = Math.max(Math.abs(one[0] - other[0]), 8), middle = (one[0] + other[0]) / 2;
          if (spread) this.zoom(variant, spread / now, middle);
          spread = now;
        } else this.pan(variant, (before[0] - x) / variant.width);
        if (event.pointerType === 'mouse') scroller.scrollTop += before[1] - y;
      });
      const leave = (event) => {
        const [x, y] = place(event);
        const clicked = pointers.delete(event.pointerId) && dragged < 4 && !strip && event.type === 'pointerup';
        spread = 0;
        if (!clicked) return;
        scroller.focus({preventScroll: true});
        this.select(variant, variant.eventAt(x, y));
        if (event.pointerType !== 'mouse') this.hover(variant, x, y);
      };
      canvas.addEventListener('pointerup', leave);
      canvas.addEventListener('pointercancel', leave);
      canvas.addEventListener('pointerleave', () => this.hover(variant, -1, -1));
      canvas.addEventListener('dblclick', (event) => {
        const found = variant.eventAt(...place(event));
        if (found) this.zoomTo(variant, found, true);
      });
      scroller.addEventListener('keydown', (event) => this.onKey(variant, event));
      variant.more.addEventListener('click', () => { variant.allRows = true; variant.arrange(); scroller.focus(); this.redraw(); });
    }

    centre(variant, x) {
      const [first, last] = this.extent(variant), {from, to} = this.viewOf(variant), at = first + x / variant.width * (last - first);
      this.show(variant, at - (to - from) / 2, at + (to - from) / 2);
    }

    /** Zoom where the wheel turns, once the timeline was clicked or with Ctrl: else who scrolls the page would be caught. */
    onWheel(variant, event, x) {
      const mine = document.activeElement === variant.scroller;
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY) ? event.deltaX : event.shiftKey ? event.deltaY : 0;
      if (sideways) this.pan(variant, sideways / variant.width);
      else if (event.ctrlKey || event.metaKey || mine) this.zoom(variant, Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), x);
      else return this.hint(variant);
      event.preventDefault();
      this.active = variant;
      this.hover(variant, -1, -1);
    }

    hint(variant) {
      const hint = variant.element.querySelector('.timeline-hint');
      hint.hidden = false;
      clearTimeout(this.hinted);
      this.hinted = setTimeout(() => { hint.hidden = true; }, 1500);
    }

    onKey(variant, event) {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      this.active = variant;
      const far = event.shiftKey ? 0.8 : 0.15;
      const keys = {
        ArrowLeft: () => this.pan(variant, -far), a: () => this.pan(variant, -far), A: () => this.pan(variant, -far),
        ArrowRight: () => this.pan(variant, far), d: () => this.pan(variant, far), D: () => this.pan(variant, far),
        ArrowUp: () => this.step(variant, 0, -1), ArrowDown: () => this.step(variant, 0, 1),
        '.': () => this.step(variant, 1, 0), ',': () => this.step(variant, -1, 0),
        '+': () => this.zoom(variant, 0.7), '=': () => this.zoom(variant, 0.7), w: () => this.zoom(variant, 0.7),
        '-': () => this.zoom(variant, 1 / 0.7), s: () => this.zoom(variant, 1 / 0.7),
        Home: () => this.fit(variant), 0: () => this.fit(variant),
        n: () => this.goToGap(1), p: () => this.goToGap(-1), N: () => this.goToGap(-1),
        Enter: () => variant.selected && this.zoomTo(variant, variant.selected, true),
        Escape: () => this.select(variant, null),
        '/': () => find('search').focus(),
      };
      if (!Object.hasOwn(keys, event.key)) return;
      event.preventDefault();
      keys[event.key]();
    }

    /** Select the event before or behind the selected one, or that of the next lane up or down which is closest in time. */
    step(variant, along, across) {
      const {from, to} = this.viewOf(variant), {selected} = variant;
      if (!selected) {
        const place = variant.places[0];
        return this.select(variant, variant.nearest(place, (from + to) / 2, Infinity));
      }
      const {row, lane, index} = selected;
      if (along) {
        const next = index + along;
        return next >= 0 && next < lane.count ? this.select(variant, {row, lane, index: next}) : undefined;
      }
      const middle = Math.min(Math.max((lane.start[index] + lane.end[index]) / 2 - variant.trace.start, from), to);
      const place = variant.places[variant.places.findIndex((one) => one.lane === lane) + across];
      if (place) this.select(variant, variant.nearest(place, middle, Infinity));
    }

    /** Show what lies under the pointer beside it. */
    hover(variant, x, y) {
      const event = x < 0 ? null : variant.eventAt(x, y), {tip} = variant;
      if (event?.lane !== variant.shown?.lane || event?.index !== variant.shown?.index) { variant.shown = event; this.redraw(); }
      tip.hidden = !event;
      if (!event) return;
      const {title, parts} = describeEvent(variant, event);
      const name = document.createElement('strong');
      name.textContent = title;
      const lines = parts.filter(Boolean).map((part) => { const line = document.createElement('div'); line.textContent = part; return line; });
      if (event.beside) lines.push(Object.assign(document.createElement('div'), {textContent: `${event.beside} more in this pixel`}));
      tip.replaceChildren(name, ...lines);
      const box = variant.scroller.getBoundingClientRect(), room = Math.max(variant.width - tip.offsetWidth - 4, 0);
      tip.style.left = `${Math.min(x + 12, room)}px`;
      tip.style.top = `${y + 18 + tip.offsetHeight > box.height ? Math.max(y - tip.offsetHeight - 10, 0) : y + 18}px`;
    }
  }

  // ---- Beginning: after the page was painted ---------------------------------------------------------------------------

  async function begin() {
    try {
      const began = performance.now(), traces = [];
      for (const data of root.querySelectorAll('.timeline-data')) {
        traces.push(await decode(data.textContent));
        data.remove();
      }
      const app = new App(traces);
      root.dataset.ready = String(Math.round(performance.now() - began));
      root.dataset.events = String(traces.reduce((sum, {rows}) => sum + rows.reduce((all, {lanes}) => all + lanes.reduce((n, {count}) => n + count, 0), 0), 0));
      app.say(IDLE);
      performance.mark('timeline-ready');
    } catch (error) {
      find('status').textContent = `This browser cannot show the timeline (${error.message}). Use a newer one; the table below lists the longest gaps.`;
      console.error(error);
    }
  }
  if (document.readyState === 'complete') setTimeout(begin);
  else addEventListener('load', () => requestAnimationFrame(() => setTimeout(begin)));
})();
