"use strict";
// Draws what the controller says in /state.json, once a second while somebody looks. Names come from users: they become
// text nodes, never HTML.

const EVERY_MS = 1000;
// Silence that is said to be one: the controller answers within a second.
const PATIENCE_MS = 3500;
// A wait for a result that is worth showing.
const LONG_WAIT_MS = 2000;
const TREND_POINTS = 180;

const $ = (id) => document.getElementById(id);
const page = {
  state: null,
  answeredAt: 0,
  trouble: "",
  // A job's name has no characters that would be encoded.
  job: location.hash.slice(1),
  readings: new Map(),
  trend: { job: "", points: [] },
  map: { drawn: "", update: () => {} },
};

// ---- Making elements ----

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function setClasses(node, classes) {
  const wanted = classes.filter(Boolean).join(" ");
  if (node.getAttribute("class") !== wanted) node.setAttribute("class", wanted);
}

// ---- Words and numbers ----

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const count = (number) => whole.format(number);
const clock = (ms) => new Date(ms).toLocaleTimeString("en-GB");

function perSecond(rate) {
  if (rate === undefined) return "–";
  return (rate > 0 && rate < 10 ? rate.toFixed(1) : count(rate)) + "/s";
}

function duration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

function seconds(s) {
  if (s === null || s === undefined) return "–";
  return s >= 1 ? `${s.toFixed(2)} s` : `${(s * 1000).toFixed(1)} ms`;
}

function bits(rate) {
  for (const [size, unit] of [[1e12, "Tbit/s"], [1e9, "Gbit/s"], [1e6, "Mbit/s"], [1e3, "kbit/s"]]) {
    if (rate >= size) return `${+(rate / size).toPrecision(3)} ${unit}`;
  }
  return `${Math.round(rate)} bit/s`;
}

function shortened(text, most) {
  return text.length > most ? text.slice(0, Math.max(1, most - 1)) + "…" : text;
}

// ---- Rates: what the counters have grown by since the last reading ----

function takeReadings(state) {
  const job = state.job ? state.job.name : "";
  for (const switch_ of state.counters.switches) {
    const known = page.readings.get(switch_.name);
    const at = state.counters.clock_ms - (switch_.age_ms ?? 0);
    if (switch_.unreachable !== null || switch_.age_ms === null) {
      if (known) known.rates = null;
      continue;
    }
    // The same reading again, for two who look at once.
    if (known && known.job === job && Math.abs(at - known.at) < 300) continue;
    const rates = known && at > known.at ? ratesSince(known, switch_, job, (at - known.at) / 1000) : null;
    page.readings.set(switch_.name, { at, job, ports: switch_.ports, ofJob: switch_.job, rates });
  }
}

function ratesSince(before, now, job, elapsed) {
  // What has become smaller was cleared, and has grown from zero.
  const rate = (now, before) => (now < before ? now : now - before) / elapsed;
  const ports = {};
  for (const [port, kinds] of Object.entries(now.ports)) {
    const bytes = (reading, kind) => reading?.[kind]?.bytes ?? 0;
    const of = (kind) => 8 * rate(bytes(kinds, kind), bytes(before.ports[port], kind));
    ports[port] = { into: of("ingress"), out: of("egress") };
  }
  const ofJob = {};
  if (before.job === job) {
    for (const [reason, packets] of Object.entries(now.job)) ofJob[reason] = rate(packets, before.ofJob[reason] ?? 0);
  }
  return { ports, ofJob };
}

const ratesOf = (name) => page.readings.get(name)?.rates ?? null;

// The bit/s in both directions of a link: from its first end, and to it.
function flow(link) {
  const [[first, firstPort], [second, secondPort]] = link.ends;
  const here = ratesOf(first)?.ports[firstPort];
  if (here) return { from: here.out, to: here.into };
  const there = ratesOf(second)?.ports[secondPort];
  return there ? { from: there.into, to: there.out } : null;
}

// ---- Where things are drawn ----

// Switches stand in rows by their distance from the workers; hosts hang in a list below their switch. A host of a switch
// that has no workers, such as the server at the root, stands above it.
function layout(state, width) {
  const hosts = new Map(state.hosts.map((host) => [host.name, host]));
  const around = new Map();
  for (const link of state.links) {
    const [[a], [b]] = link.ends;
    for (const [one, other] of [[a, b], [b, a]]) {
      if (!around.has(one)) around.set(one, []);
      around.get(one).push(other);
    }
  }
  const names = [...state.switches.map((one) => one.name), ...around.keys()];
  const switches = [...new Set(names)].filter((name) => !hosts.has(name));
  const level = levels(state, hosts, around, switches);
  const top = Math.max(1, ...level.values());

  const below = new Map(switches.map((name) => [name, []]));
  const above = [];
  for (const host of state.hosts) {
    const via = (around.get(host.name) ?? [])[0];
    if (via !== undefined && level.get(via) === 1) below.get(via).push(host.name);
    else above.push({ name: host.name, via });
  }

  const leaves = inOrder(switches, around, level).filter((name) => level.get(name) === 1);
  const column = Math.min(184, Math.max(96, Math.floor((width - 4) / Math.max(1, leaves.length))));
  const abreast = column >= 180 && Math.max(0, ...leaves.map((name) => below.get(name).length)) > 8 ? 2 : 1;
  const x = new Map(leaves.map((name, place) => [name, (place + 0.5) * column]));
  const boxWidth = column - 8;
  const rows = [leaves];
  for (let row = 2; row <= top + 1; row++) {
    const under = (name) => (around.get(name) ?? []).filter((other) => level.get(other) === row - 1);
    const members = switches.filter((name) => level.get(name) === row).map((name) => [name, under(name)]);
    for (const host of above) {
      if ((level.get(host.via) ?? 0) + 1 === row) members.push([host.name, [host.via]]);
    }
    spread(members, x, boxWidth + 14, leaves.length * column);
    rows.push(members.map(([name]) => name));
  }
  // A host whose switch stands nowhere has no place: there are none in a valid topology.
  const leftmost = Math.min(column / 2, ...x.values());
  const shift = column / 2 - leftmost;
  for (const [name, at] of x) x.set(name, at + shift);
  const total = Math.max(leaves.length * column + shift, ...[...x.values()].map((at) => at + boxWidth / 2 + 4));
  const spare = Math.max(0, (width - total) / 2);
  for (const [name, at] of x) x.set(name, at + spare);
  return { hosts, switches, level, below, rows: rows.filter((row) => row.length), x, column, boxWidth, abreast, total };
}

function levels(state, hosts, around, switches) {
  const level = new Map();
  const workers = state.hosts.filter((host) => host.role === "worker");
  let border = (workers.length ? workers : state.hosts).map((host) => host.name);
  for (let distance = 1; border.length; distance++) {
    const next = [];
    for (const name of border) {
      for (const other of around.get(name) ?? []) {
        if (!hosts.has(other) && !level.has(other)) {
          level.set(other, distance);
          next.push(other);
        }
      }
    }
    border = next;
  }
  for (const name of switches) if (!level.has(name)) level.set(name, 1);
  return level;
}

// Switches as one meets them from the top down, so that those with a common switch above stand side by side.
function inOrder(switches, around, level) {
  const met = new Set();
  const visit = (name) => {
    if (met.has(name) || !level.has(name)) return;
    met.add(name);
    for (const other of around.get(name) ?? []) if (level.get(other) < level.get(name)) visit(other);
  };
  [...switches].sort((a, b) => level.get(b) - level.get(a)).forEach(visit);
  return [...met];
}

// Puts each over the middle of those below it, and then apart.
function spread(members, x, gap, width) {
  const middle = ([, under]) => {
    const places = under.map((name) => x.get(name)).filter((at) => at !== undefined);
    return places.length ? places.reduce((sum, at) => sum + at, 0) / places.length : width / 2;
  };
  const wanted = members.map((member) => [member[0], middle(member)]).sort((a, b) => a[1] - b[1]);
  let last = -Infinity;
  for (const one of wanted) last = one[1] = Math.max(one[1], last + gap);
  const drift = wanted.length ? (Math.max(0, last + gap / 2 - width)) / 2 : 0;
  for (const [name, at] of wanted) x.set(name, at - drift);
}

// ---- The map ----

const BOX = 46, ROW = 104, CHIP = 22;

function drawMap(state) {
  const width = $("map").clientWidth || 800;
  const structure = JSON.stringify([width, state.hosts.map((host) => [host.name, host.role]),
    state.links.map((link) => link.ends), state.switches.map((one) => one.name)]);
  if (page.map.drawn !== structure) {
    page.map = { drawn: structure, update: makeMap(layout(state, width), state) };
  }
  page.map.update(state);
}

function makeMap(plan, state) {
  const y = new Map();
  plan.rows.forEach((row, place) => row.forEach((name) => y.set(name, 8 + (plan.rows.length - 1 - place) * ROW)));
  const wires = shape("g"), boxes = shape("g"), labels = shape("g");
  const updates = [];
  const inLists = new Set([...plan.below.values()].flat());

  const between = state.links.filter((link) => link.ends.every(([name]) => !inLists.has(name)));
  // Where many lines cross, only the tree's have a label, close to where it belongs.
  const crowded = between.length > 1.5 * plan.switches.length;
  const twins = new Map();
  for (const link of between) {
    // Parallel links stand side by side.
    const pair = link.ends.map(([name]) => name).sort().join("\n");
    const twin = twins.get(pair) ?? 0;
    twins.set(pair, twin + 1);
    updates.push(makeLink(link, twin * 9, plan, y, wires, labels, crowded));
  }
  for (const name of plan.switches) updates.push(makeSwitch(name, plan, y, boxes));
  for (const host of plan.hosts.values()) {
    if (!inLists.has(host.name) && y.has(host.name)) updates.push(makeHostBox(host.name, plan, y, boxes));
  }
  let bottom = 0;
  const leafY = 8 + (plan.rows.length - 1) * ROW + BOX;
  for (const [via, names] of plan.below) {
    const lines = Math.ceil(names.length / plan.abreast);
    bottom = Math.max(bottom, lines * (CHIP + 3));
    names.forEach((name, place) => updates.push(makeChip(name, via, place, lines, plan, leafY, wires, boxes, state)));
  }
  const height = leafY + bottom + 18;
  const title = shape("title", {}, "The network: switches in rows, hosts below them");
  const width = Math.ceil(Math.max(plan.total, $("map").clientWidth - 4));
  $("map").replaceChildren(shape("svg", { width, height, role: "img" }, title, wires, boxes, labels));
  // Where it is wider than the screen one begins in the middle, under the root.
  $("map").scrollLeft = (width - $("map").clientWidth) / 2;
  return (now) => {
    const view = viewOf(now);
    for (const update of updates) update(view);
  };
}

// What the map's parts look up.
function viewOf(state) {
  const byName = (list) => new Map(list.map((one) => [one.name, one]));
  const job = state.job;
  const uplinks = new Map((job?.tree ?? []).map((link) => [`${link.child}\n${link.port}`, link.parent]));
  const links = new Map(state.links.map((link) => [linkKey(link), link]));
  const rates = state.switches.map((one) => ratesOf(one.name)?.ofJob.completed ?? 0);
  return {
    job, uplinks, links,
    switches: byName(state.switches),
    hosts: byName(state.hosts),
    members: new Map((job?.members ?? []).map((member) => [`${member.role}\n${member.host}`, member])),
    most: Math.max(1, ...rates),
  };
}

const linkKey = (link) => link.ends.map((end) => end.join(":")).join(" ");

// What a link is to the job: whether it is in its tree, and which end is the lower one there.
function treeEnd(link, view) {
  const isChild = ([name, port], [parent]) => view.uplinks.get(`${name}\n${port}`) === parent;
  if (isChild(link.ends[0], link.ends[1])) return 0;
  return isChild(link.ends[1], link.ends[0]) ? 1 : null;
}

// Words for a link's load, `lower` being the end that is drawn further down.
function load(link, lower) {
  const rates = flow(link);
  if (!rates) return { words: "", word: "", title: "no reading", up: 0, down: 0 };
  const [up, down] = lower === 0 ? [rates.from, rates.to] : [rates.to, rates.from];
  const percent = (rate) => Math.round((100 * rate) / link.rate);
  const title = `up ${bits(up)}, down ${bits(down)}, of ${bits(link.rate)}`;
  return { words: `↑${percent(up)} ↓${percent(down)} %`, word: `${percent(Math.max(up, down))}%`, title, up, down };
}

function makeLink(link, aside, plan, y, wires, labels, crowded) {
  const key = linkKey(link);
  const [a, b] = link.ends.map(([name]) => ({ x: plan.x.get(name) + aside, y: y.get(name) }));
  const lower = a.y >= b.y ? 0 : 1;
  const [low, high] = lower === 0 ? [a, b] : [b, a];
  const level = low.y === high.y;
  const from = level ? low.y + BOX / 2 : low.y, to = level ? high.y + BOX / 2 : high.y + BOX;
  const near = crowded ? 0.14 : 0.3;
  const wire = shape("path", { class: "wire" });
  const title = shape("title");
  const group = shape("g", {}, wire, title);
  const text = shape("text", { class: "label", "text-anchor": "middle",
    x: low.x + (high.x - low.x) * near, y: from + (to - from) * near + 4 });
  const words = shape("g", {}, text);
  wires.append(group);
  labels.append(words);
  return (view) => {
    const now = view.links.get(key);
    if (!now) return;
    const child = treeEnd(now, view);
    // Dashes move from child to parent.
    const [start, end] = child === null || child === lower ? [[low.x, from], [high.x, to]] : [[high.x, to], [low.x, from]];
    wire.setAttribute("d", `M${start.join(" ")}L${end.join(" ")}`);
    const loads = load(now, lower);
    const flows = loads.up + loads.down > now.rate / 1000 && now.state === "alive";
    setClasses(group, [child !== null && "on-tree", flows && "flows", now.state]);
    setClasses(words, [now.state]);
    setText(title, `${now.ends[0][0]} – ${now.ends[1][0]}: ${now.state}, ${loads.title}`);
    const quiet = !flows || (crowded && child === null);
    const sign = { dead: "✕ dead", silent: "?", "short-of-mtu": "✕ MTU" }[now.state];
    setText(text, sign ?? (quiet ? "" : loads.words));
  };
}

function makeBox(name, left, top, width, height, boxes) {
  const rect = { x: left, y: top, width, height, rx: 6 };
  const glow = shape("rect", { class: "glow", "fill-opacity": 0, ...rect });
  const label = shape("text", { class: "name", x: left + 8, y: top + 18 });
  const state = shape("text", { class: "state small", x: left + 8, y: top + 36 });
  const title = shape("title");
  const group = shape("g", {}, shape("rect", { class: "box", ...rect }), glow, label, state, title);
  boxes.append(group);
  label.textContent = shortened(name, Math.floor((width - 14) / 7.4));
  return { group, glow, state, title };
}

function makeSwitch(name, plan, y, boxes) {
  const at = { left: plan.x.get(name) - plan.boxWidth / 2, top: y.get(name) };
  const box = makeBox(name, at.left, at.top, plan.boxWidth, BOX, boxes);
  return (view) => {
    const known = view.switches.get(name);
    const part = view.job?.switches[name];
    const rate = ratesOf(name)?.ofJob.completed;
    const away = known?.state === "away";
    let words;
    if (away) words = `✕ away ${duration(known.state_ms)}`;
    else if (known?.state === "connecting") words = "… connecting";
    else if (part?.adds) words = `Σ${part.children} ${perSecond(rate)}`;
    else if (part) words = "forwards";
    else words = known ? "● up" : "plain switch";
    setText(box.state, words);
    const bright = part && rate > 0 && !away ? 0.12 + 0.33 * Math.min(1, rate / view.most) : 0;
    box.glow.setAttribute("fill-opacity", bright.toFixed(2));
    setClasses(box.group, [part && "on-tree", known?.state]);
    const slots = known ? `, ${known.slots_taken} of ${known.slots} slots taken` : "";
    setText(box.title, `switch ${name}: ${known?.state ?? "not managed"}${slots}${known?.reason ? `: ${known.reason}` : ""}`);
  };
}

// How a host is, in a few words and in one, and a class for it.
function hostWords(name, view) {
  const host = view.hosts.get(name);
  const member = view.members.get(`worker\n${name}`) ?? view.members.get(`server\n${name}`);
  if (host && !host.agent && !host.server) return { sign: "✕", words: "no daemon", word: "gone", kind: "lost" };
  if (member && !member.joined) return { sign: "✕", words: "not joined", word: "out", kind: "waits" };
  if (member?.detached) return { sign: "–", words: "left out", word: "out", kind: "waits" };
  if (member?.waits_ms >= LONG_WAIT_MS) return { sign: "▲", words: `waits ${duration(member.waits_ms)}`, word: "waits", kind: "waits" };
  if (member?.degraded) return { sign: "▲", words: "slow", word: "slow", kind: "waits" };
  return { sign: "●", words: "", word: "", kind: "" };
}

function makeHostBox(name, plan, y, boxes) {
  const left = plan.x.get(name) - plan.boxWidth / 2;
  const box = makeBox(name, left, y.get(name), plan.boxWidth, BOX, boxes);
  return (view) => {
    const { sign, words, kind } = hostWords(name, view);
    const serves = view.job?.server === name;
    setText(box.state, `${sign} ${words || (serves ? "serves the job" : "connected")}`);
    setClasses(box.group, [serves && "on-tree", kind]);
    setText(box.title, `host ${name}`);
  };
}

function makeChip(name, via, place, lines, plan, leafY, wires, boxes, state) {
  const wide = (plan.column - 8) / plan.abreast;
  const lane = Math.floor(place / lines);
  const trunk = plan.x.get(via) - plan.column / 2 + 8 + lane * wide;
  const left = trunk + 7, width = wide - 14;
  const top = leafY + 12 + (place % lines) * (CHIP + 3);
  const isNarrow = width < 125;
  const link = state.links.find(({ ends }) => ends.some(([end]) => end === name));
  const key = link && linkKey(link), lower = link?.ends[0][0] === name ? 0 : 1;
  const wire = shape("path", { class: "wire", d: `M${left} ${top + CHIP / 2}H${trunk}V${leafY}` });
  const wireGroup = shape("g", {}, wire);
  const label = shape("text", { class: "name small", x: left + 5, y: top + 15 });
  const text = shape("text", { class: "state small", x: left + width - 4, y: top + 15, "text-anchor": "end" });
  const title = shape("title");
  const box = shape("g", {}, shape("rect", { class: "box", x: left, y: top, width, height: CHIP, rx: 4 }), label, text, title);
  wires.append(wireGroup);
  boxes.append(box);
  return (view) => {
    const now = view.links.get(key);
    const { sign, words, word, kind } = hostWords(name, view);
    const onTree = now && treeEnd(now, view) !== null;
    const loads = now ? load(now, lower) : { words: "", word: "", title: "", up: 0, down: 0 };
    const flows = now && loads.up + loads.down > now.rate / 1000;
    const [broken, doubt] = [now?.state === "dead", now?.state === "silent"];
    const swallows = now?.state === "short-of-mtu";
    const long = broken ? "✕ cable" : swallows ? "✕ MTU" : words || (doubt ? "? cable" : flows ? loads.words : "");
    const short = broken || swallows ? "✕" : word || (doubt ? "?" : flows ? loads.word : "");
    const said = isNarrow ? short : long;
    setText(text, said);
    const signed = isNarrow && sign === "●" ? "" : `${sign} `;
    const room = width - 14 - 6.5 * said.length - 7 * signed.length;
    setText(label, signed + shortened(name, Math.floor(room / 6.9)));
    setClasses(box, [onTree && "on-tree", broken || swallows ? "lost" : kind || (doubt && "doubt")]);
    setClasses(wireGroup, [onTree && "on-tree", now?.state]);
    setText(title, `host ${name}${words ? `: ${words}` : ""}${now ? `; its cable is ${now.state}, ${loads.title}` : ""}`);
  };
}

// ---- The job ----

const STATE_SIGNS = { running: ["●", "good"], queued: ["▲", "warn"], created: ["▲", "warn"], installing: ["▲", "warn"], failed: ["✕", "bad"] };

function drawJobs(state) {
  const over = (job) => job.state === "ended" || job.state === "failed";
  const jobs = [...state.jobs].reverse().sort((a, b) => over(a) - over(b));
  const wanted = JSON.stringify([state.job?.name, jobs.map((job) => [job.name, job.state, job.workers, job.ranks])]);
  if (page.jobsDrawn === wanted) return;
  page.jobsDrawn = wanted;
  const seen = new Set();
  const items = [];
  for (const job of jobs) {
    // Of several with one name only the newest can be looked at.
    if (seen.has(job.name)) continue;
    seen.add(job.name);
    const [sign, kind] = STATE_SIGNS[job.state] ?? ["–", ""];
    const button = element("button", { type: "button", "aria-pressed": String(job.name === state.job?.name) },
      element("b", {}, job.name), " ", element("span", { class: kind }, `${sign} ${job.state}`), " ",
      element("small", {}, job.ranks ? `${job.workers} workers, ${job.ranks} ranks` : `${job.workers} workers`));
    button.addEventListener("click", () => choose(job.name));
    items.push(element("li", {}, button));
  }
  $("jobs").replaceChildren(...(items.length ? items : [element("li", {}, "There are no jobs.")]));
}

function choose(name) {
  page.job = name;
  history.replaceState(null, "", "#" + name);
  ask();
}

function drawJob(state) {
  const job = state.job;
  if (!job) {
    $("job").replaceChildren(page.job ? `There is no job ${page.job} any more.` : "There are no jobs.");
    setText($("job-title"), "Job");
    return;
  }
  const summary = state.jobs.findLast((one) => one.name === job.name);
  setText($("job-title"), `Job ${job.name}`);
  const fastest = Math.max(0, ...Object.keys(job.switches).map((name) => ratesOf(name)?.ofJob.completed ?? 0));
  noteTrend(job.name, fastest);
  const totals = (reason) => totalOf(state, reason);
  const facts = [
    ["state", summary.state], ["generation", count(job.generation)], ["for", duration(summary.age_ms)],
    ["sums a second", perSecond(fastest)], ["sent again", count(totals("duplicate") + totals("stale"))],
    ["asked for", count(totals("probe"))], ["rejected", count(totals("rejected"))],
    ["a step takes", seconds(job.step_s)], ["created by", summary.creator],
  ];
  const list = element("dl", { class: "facts" },
    ...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  const scrolled = [...$("job").querySelectorAll(".scroll")].map((part) => [part.scrollLeft, part.scrollTop]);
  $("job").replaceChildren(list, trend(), ...remarks(job, summary), membersTable(job), switchesTable(state, job));
  $("job").querySelectorAll(".scroll").forEach((part, place) => {
    [part.scrollLeft, part.scrollTop] = scrolled[place] ?? [0, 0];
  });
}

const totalOf = (state, reason) => state.counters.switches.reduce((sum, one) => sum + (one.job[reason] ?? 0), 0);

function remarks(job, summary) {
  const lines = [
    ...summary.waits_for.map((what) => ["warn", `▲ waits for ${what}`]),
    ...(summary.setback ? [["bad", `✕ cannot change its structure: ${summary.setback}`]] : []),
    ...(summary.reason ? [["bad", `✕ ${summary.reason}`]] : []),
    ...job.fallbacks.map((why) => ["warn", `▲ aggregates less than it could: ${why}`]),
    ...(job.verdict ? [["", job.verdict]] : []),
    ...(summary.last_change ? [["", `Generation ${summary.generation} because ${summary.last_change}`]] : []),
  ];
  if (summary.state === "running" && !summary.waits_for.length) lines.unshift(["good", "● nobody waits for anybody for long"]);
  return lines.length ? [element("ul", {}, ...lines.map(([kind, text]) => element("li", { class: kind }, text)))] : [];
}

function noteTrend(job, rate) {
  if (page.trend.job !== job) page.trend = { job, points: [] };
  page.trend.points.push(rate);
  if (page.trend.points.length > TREND_POINTS) page.trend.points.shift();
}

function trend() {
  const points = page.trend.points;
  const highest = Math.max(0, ...points), most = Math.max(1, highest);
  const path = points.map((rate, place) => `${place ? "L" : "M"}${place + TREND_POINTS - points.length} ${(39 - (37 * rate) / most).toFixed(1)}`);
  const words = `Sums a second in the last three minutes, ${perSecond(highest)} at most`;
  const line = shape("svg", { id: "trend", viewBox: `0 0 ${TREND_POINTS} 40`, preserveAspectRatio: "none", "aria-hidden": "true" },
    shape("path", { d: path.join("") }));
  return element("figure", {}, line, element("figcaption", {}, words));
}

// Columns are [head, whether it is text]; cells are texts, or [class, text].
function table(caption, columns, rows) {
  const head = columns.map(([name, isText]) => element("th", { scope: "col", class: isText ? "text" : "" }, name));
  const cell = (value, place) => {
    const [kind, text] = Array.isArray(value) ? value : ["", value];
    return element("td", { class: `${columns[place][1] ? "text" : ""} ${kind}` }, text);
  };
  const body = rows.map((row) => element("tr", {}, ...row.map(cell)));
  return element("div", { class: "scroll", tabindex: "0" },
    element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

function membersTable(job) {
  const rows = job.members.map((member) => {
    const waits = member.waits_ms ?? 0;
    return [
      member.host, member.role === "server" ? "server" : member.ranks ?? "–", memberState(member),
      member.operations === null ? "–" : count(member.operations), seconds(member.compute_s), seconds(member.reduce_s),
      member.ratio === null || member.ratio === undefined ? "–" : member.ratio.toFixed(2),
      waits >= LONG_WAIT_MS ? ["warn", `▲ ${duration(waits)}`] : "–",
    ];
  });
  const columns = [["host", true], ["as", true], ["is", true], ["all-reduces"], ["computes"], ["reduces"], ["of the median"], ["waits"]];
  return table("Members", columns, rows);
}

function memberState(member) {
  if (!member.joined) return ["bad", "✕ not there"];
  if (member.detached) return ["warn", "– left out"];
  return member.degraded ? ["warn", "▲ in, slow"] : ["good", "● in"];
}

function switchesTable(state, job) {
  const rows = state.counters.switches.filter((one) => job.switches[one.name]).map((one) => {
    const part = job.switches[one.name];
    const rates = ratesOf(one.name)?.ofJob;
    const rate = (reason) => perSecond(rates ? rates[reason] ?? 0 : undefined);
    const total = (reason) => one.job[reason] ?? 0;
    const stale = one.unreachable === null ? one.name : ["warn", `▲ ${one.name}: ${one.age_ms === null ? "never read" : `read ${duration(one.age_ms)} ago`}`];
    return [stale, part.adds ? count(part.children) : "–", rate("received"), rate("contributed"), rate("completed"),
      rate("result"), count(total("duplicate") + total("stale")), count(total("probe")), count(total("rejected"))];
  });
  const columns = [["switch", true], ["adds"], ["received"], ["added up"], ["sums"], ["results"], ["sent again"], ["asked for"], ["rejected"]];
  return table("Switches: slices a second, and in total", columns, rows);
}

// ---- Events ----

function drawEvents(state) {
  const own = $("own-events").checked, job = state.job?.name;
  const wanted = JSON.stringify([own, own && job, state.events[0]?.number, state.events[0]?.at_ms, state.events.length]);
  if (page.eventsDrawn === wanted) return;
  page.eventsDrawn = wanted;
  const shown = state.events.filter((event) => !own || !event.job || event.job === job);
  const signs = { bad: "✕", good: "●", plain: "–" };
  const items = shown.map((event) => element("li", {},
    element("time", { datetime: new Date(event.at_ms).toISOString() }, clock(event.at_ms)),
    element("span", { class: event.mood }, signs[event.mood] ?? "–"),
    element("span", {}, element("b", {}, [event.job, event.node].filter(Boolean).join(" ")), ` ${event.text}`)));
  $("events").replaceChildren(...(items.length ? items : [element("li", {}, "Nothing has happened yet.")]));
}

// ---- Asking ----

function draw(state) {
  const { controller } = state;
  document.title = `${controller.topology} – Tributary`;
  setText($("network"), controller.topology);
  setText($("about"), `controller ${controller.version}, up for ${duration(controller.runs_ms)}`);
  takeReadings(state);
  drawJobs(state);
  drawMap(state);
  drawJob(state);
  drawEvents(state);
}

function drawContact() {
  const now = Date.now();
  const stale = page.trouble !== "" || (page.answeredAt > 0 && now - page.answeredAt > PATIENCE_MS);
  document.body.classList.toggle("stale", stale);
  const journal = page.state?.controller.journal_problem;
  const trouble = $("trouble");
  if (stale) {
    const since = page.answeredAt ? ` since ${clock(page.answeredAt)} (${duration(now - page.answeredAt)}). The page shows the last known state.` : ".";
    setText(trouble, `The controller cannot be reached${since}${page.trouble ? ` (${page.trouble})` : ""}`);
    setText($("contact"), page.answeredAt ? `✕ stale since ${clock(page.answeredAt)}` : "✕ not reached");
  } else if (page.answeredAt) {
    setText(trouble, journal ? `Jobs cannot be recorded: ${journal}` : "");
    setText($("contact"), `● live, ${clock(page.answeredAt)}`);
  }
  trouble.hidden = !stale && !journal;
}

let asking = null;

async function ask() {
  asking?.abort();
  const call = (asking = new AbortController());
  const patience = setTimeout(() => call.abort(), PATIENCE_MS);
  try {
    const query = page.job ? `?job=${encodeURIComponent(page.job)}` : "";
    const answer = await fetch("state.json" + query, { signal: call.signal, cache: "no-store" });
    if (!answer.ok) throw new Error(`it answers ${answer.status}`);
    const state = await answer.json();
    [page.state, page.answeredAt, page.trouble] = [state, Date.now(), ""];
    draw(state);
  } catch (error) {
    // Another question has taken the place of this one.
    if (asking !== call) return;
    page.trouble = call.signal.aborted ? "it does not answer" : error instanceof TypeError ? "no connection" : error.message;
  } finally {
    clearTimeout(patience);
    if (asking === call) asking = null;
  }
  drawContact();
}

// Nobody looks at a page in the background, and nobody is asked for it.
setInterval(() => {
  if (document.hidden) return;
  if (!asking) ask();
  drawContact();
}, EVERY_MS);
addEventListener("resize", () => page.state && drawMap(page.state));
document.addEventListener("visibilitychange", () => document.hidden || ask());
$("own-events").addEventListener("change", () => page.state && drawEvents(page.state));
ask();
