//! The plan as a picture.

use std::collections::BTreeMap;

use svg::node::element::{Group, Line, Path, Rectangle, Title};
use svg::{Document, Node};
use tributary_planner::{Plan, SwitchRole};
use tributary_topology::{Link, LinkKey, NodeKey, Topology, format_rate};

use super::layout::Layout;
use super::table::{LinkPair, bytes, job, pairs, worth};
use tributary_cli::drawing::role;
use tributary_picture::{FAINT, INK, OURS, page, text};

const COLUMN: f64 = 128.0;
const ROW: f64 = 128.0;
const MARGIN: f64 = 48.0;
const HEADER: f64 = 122.0;
const BOX: (f64, f64) = (92.0, 44.0);
/// Two lengths of node names: the longest name that fits its box at full size, and the longest that is
/// shown completely. Longer names are shortened.
const NAME: (usize, usize) = (11, 16);
const LINE: f64 = 20.0;
/// Length of the straight piece of a link above its lower end, where the link's bytes are printed.
const STRAIGHT: f64 = 34.0;
const LEAST_WIDTH: f64 = 860.0;
/// Stroke widths of the thinnest and the thickest link.
const STROKE: (f64, f64) = (1.5, 7.0);

const UNUSED: &str = "#c3c8d0";
const UP: &str = "#2563eb";
const DOWN: &str = "#ea8c0c";
/// The colour of the downward direction in text, which needs more contrast than lines.
const DOWN_INK: &str = "#b45309";
const AGGREGATES: &str = OURS;

/// Draws the topology with the job's tree on it.
pub(crate) fn picture(topology: &Topology, plan: &Plan) -> Document {
    let canvas = PlanCanvas::new(topology, plan);
    let parts =
        [canvas.unused_links(), canvas.tree_links(), canvas.nodes(), canvas.labels(), canvas.footer()];
    let page = page(canvas.width, canvas.height, 12).add(canvas.title());
    parts.into_iter().fold(page, Document::add)
}

struct PlanCanvas<'a> {
    topology: &'a Topology,
    plan: &'a Plan,
    layout: Layout,
    /// The links of the tree.
    pairs: BTreeMap<LinkKey, LinkPair<'a>>,
    width: f64,
    height: f64,
    /// The x-coordinate of the middle of the first column.
    left: f64,
    /// Bytes in the busiest direction of any link.
    most: u64,
}

impl<'a> PlanCanvas<'a> {
    fn new(topology: &'a Topology, plan: &'a Plan) -> Self {
        let layout = Layout::of(topology, plan);
        let columns = layout.columns as f64 * COLUMN;
        let width = (columns + 2.0 * MARGIN).max(LEAST_WIDTH);
        let lines = worth(plan).len() + plan.notes.len() + usize::from(!layout.represented.is_empty());
        let footer = lines as f64 * LINE + 84.0;
        Self {
            topology,
            plan,
            width,
            height: HEADER + (layout.rows as f64 - 1.0) * ROW + BOX.1 + footer,
            left: (width - columns + COLUMN) / 2.0,
            most: plan.traffic.links.iter().map(|link| link.bytes).max().unwrap_or(1).max(1),
            layout,
            pairs: pairs(plan),
        }
    }

    fn shows(&self, node: NodeKey) -> bool {
        self.layout.places.contains_key(&node)
    }

    fn shows_link(&self, link: &Link) -> bool {
        link.ends.iter().all(|end| self.shows(end.node))
    }

    /// Returns the links of the tree that are drawn.
    fn shown_pairs(&self) -> impl Iterator<Item = (LinkKey, &LinkPair<'a>)> {
        self.pairs
            .iter()
            .map(|(&key, pair)| (key, pair))
            .filter(|(key, _)| self.shows_link(&self.topology[*key]))
    }

    /// Returns the coordinates of a node's middle.
    fn at(&self, node: NodeKey) -> (f64, f64) {
        let (column, row) = self.layout.places.get(&node).copied().unwrap_or_default();
        (self.left + column * COLUMN, HEADER + row as f64 * ROW + BOX.1 / 2.0)
    }

    fn title(&self) -> Group {
        let name = text(MARGIN, 40.0, self.plan.topology.clone(), INK).set("font-size", 22);
        let name = name.set("font-weight", 600);
        let description = text(MARGIN, 64.0, self.topology.description(), INK);
        Group::new().add(name).add(description).add(text(MARGIN, 84.0, job(self.plan), FAINT))
    }

    fn unused_links(&self) -> Group {
        let mut group = Group::new().set("fill", "none").set("stroke", UNUSED).set("stroke-width", 1.5);
        let unused = self
            .topology
            .links()
            .filter(|(key, link)| !self.pairs.contains_key(key) && self.shows_link(link));
        for (key, link) in unused {
            let ends = [link.ends[0].node, link.ends[1].node];
            let path = Path::new().set("d", self.curve(ends, 0.0)).set("stroke-dasharray", "4 4");
            group.append(path.add(self.tooltip(key, link)));
        }
        group
    }

    fn tree_links(&self) -> Group {
        let mut group = Group::new().set("fill", "none");
        for (key, LinkPair { up, down }) in self.shown_pairs() {
            let link = &self.topology[key];
            let ends = [link.ends[0].node, link.ends[1].node];
            let [wide_up, wide_down] = [up.bytes, down.bytes].map(|bytes| self.stroke(bytes));
            // The two directions are drawn side by side, with a thin gap between them.
            for (color, width, shift) in
                [(UP, wide_up, -(wide_up + 1.5) / 2.0), (DOWN, wide_down, (wide_down + 1.5) / 2.0)]
            {
                let path = Path::new().set("d", self.curve(ends, shift));
                group.append(
                    path.set("stroke", color).set("stroke-width", width).add(self.tooltip(key, link)),
                );
            }
        }
        group
    }

    fn stroke(&self, bytes: u64) -> f64 {
        let (least, most) = STROKE;
        least + (most - least) * bytes as f64 / self.most as f64
    }

    /// Returns a path from the upper to the lower of two nodes.
    /// The path bends in the gap below the upper node's row and goes straight down from there, so that it crosses no
    /// other node of the tree.
    fn curve(&self, [a, b]: [NodeKey; 2], shift: f64) -> String {
        let (mut from, mut to) = (self.at(a), self.at(b));
        if from.1 > to.1 {
            (from, to) = (to, from);
        }
        let ((x1, y1), (x2, y2)) = ((from.0 + shift, from.1), (to.0 + shift, to.1));
        if y1 == y2 {
            let dip = y1 + ROW / 2.0;
            return format!("M{x1} {y1}C{x1} {dip} {x2} {dip} {x2} {y2}");
        }
        let (start, bend) = (y1 + BOX.1 / 2.0, y1 + ROW - BOX.1 / 2.0 - STRAIGHT);
        // Where the path is horizontal, the two directions are above each other, so the shift is vertical.
        let middle = (start + bend) / 2.0 - shift * (x2 - x1).clamp(-1.0, 1.0);
        format!("M{x1} {y1}V{start}C{x1} {middle} {x2} {middle} {x2} {bend}V{y2}")
    }

    fn tooltip(&self, key: LinkKey, link: &Link) -> Title {
        let [a, b] = link.ends.map(|end| format!("{}:{}", self.topology[end.node].name, end.port));
        let in_use = link.load.map(format_rate);
        let mut said =
            format!("{a} – {b}, {}, in use {} and back {}", format_rate(link.rate), in_use[0], in_use[1]);
        if let Some(LinkPair { up, down }) = self.pairs.get(&key) {
            said += &format!("; {} up, {} down", bytes(up.bytes), bytes(down.bytes));
        }
        Title::new(said)
    }

    /// Draws the bytes of every link of the tree above the link's lower end, with arrows for the
    /// directions.
    fn labels(&self) -> Group {
        let mut group = Group::new().set("font-size", 10.5);
        for (key, LinkPair { up, down }) in self.shown_pairs() {
            let [a, b] = self.topology[key].ends.map(|end| self.at(end.node));
            let (x, y) = if a.1 > b.1 { a } else { b };
            let bottom = y - BOX.1 / 2.0;
            let [wide_up, wide_down] = [up.bytes, down.bytes].map(|bytes| self.stroke(bytes));
            let (left, right) = (x - wide_up - 6.0, x + wide_down + 6.0);
            let baseline = bottom - STRAIGHT / 2.0 + 4.0;
            group.append(arrow(x - (wide_up + 1.5) / 2.0, baseline - 8.0, 8.0, wide_up, UP));
            group.append(arrow(x + (wide_down + 1.5) / 2.0, baseline, -8.0, wide_down, DOWN));
            group.append(text(left, baseline, bytes(up.bytes), UP).set("text-anchor", "end"));
            group.append(text(right, baseline, bytes(down.bytes), DOWN_INK));
        }
        group
    }

    fn nodes(&self) -> Group {
        let mut group = Group::new().set("text-anchor", "middle");
        for (key, node) in self.topology.nodes().filter(|(key, _)| self.shows(*key)) {
            let look = self.look(key);
            let (x, y) = self.at(key);
            let (width, height) = BOX;
            let frame = Rectangle::new()
                .set("x", x - width / 2.0)
                .set("y", y - height / 2.0)
                .set("width", width)
                .set("height", height)
                .set("rx", if node.switch().is_some() { 6.0 } else { height / 2.0 })
                .set("fill", look.fill)
                .set("stroke", look.edge)
                .set("stroke-width", 1.5)
                .set("stroke-dasharray", if look.dashed { "4 3" } else { "none" });
            let (shown, size) = fitting(&node.name);
            let name = text(x, y - 2.0, shown, look.ink).set("font-size", size).set("font-weight", 600);
            let said = text(x, y + 13.0, look.said, look.ink).set("font-size", 10.5);
            group.append(Group::new().add(Title::new(self.names_at(key))).add(frame).add(name).add(said));
        }
        group
    }

    /// Returns the node's name, and the names of the workers that it represents.
    fn names_at(&self, key: NodeKey) -> String {
        let others = self.layout.represented.get(&key).into_iter().flatten();
        let names: Vec<_> = [key].iter().chain(others).map(|&key| self.topology[key].name.as_str()).collect();
        names.join(", ")
    }

    fn look(&self, key: NodeKey) -> Look {
        let plan = self.plan;
        if key == plan.server.key {
            let said = format!("server, fan-in {}", plan.server.fan_in);
            return Look { said, fill: INK, edge: INK, ink: "#ffffff", dashed: false };
        }
        if let Some(worker) = plan.workers.iter().find(|worker| worker.key == key) {
            let said = match self.layout.represented.get(&key).map_or(0, Vec::len) {
                0 => format!("rank {}", worker.rank),
                others => format!("and {others} more"),
            };
            return Look { said, fill: "#eff6ff", edge: UP, ink: INK, dashed: false };
        }
        match plan.switches.iter().find(|switch| switch.key == key) {
            Some(switch) => Look::of(switch),
            None => Look { said: "not used".into(), fill: "#fafafa", edge: UNUSED, ink: FAINT, dashed: true },
        }
    }

    /// Draws the legend, and below it the plan's benefits.
    fn footer(&self) -> Group {
        let top = HEADER + (self.layout.rows as f64 - 1.0) * ROW + BOX.1 + 34.0;
        let mut group = Group::new();
        group.append(rule(MARGIN, self.width - MARGIN, top - 12.0));
        let mut x = MARGIN;
        for (color, said) in [(UP, "gradients, towards the server"), (DOWN, "results, towards the workers")] {
            let line = Line::new().set("x1", x).set("x2", x + 28.0).set("y1", top + 8.0).set("y2", top + 8.0);
            group.append(line.set("stroke", color).set("stroke-width", 6));
            group.append(text(x + 36.0, top + 12.0, said, INK));
            x += 232.0;
        }
        group.append(swatch(x, top, AGGREGATES, AGGREGATES));
        group.append(text(x + 36.0, top + 12.0, "aggregates", INK));
        group.append(swatch(x + 110.0, top, "#ffffff", AGGREGATES));
        group.append(text(x + 146.0, top + 12.0, "passes on", INK));
        let mut y = top + 44.0;
        if !self.layout.represented.is_empty() {
            let said = "Workers at one switch are drawn as one worker, with its bytes. Nodes and links that the job \
                        does not use are left out.";
            group.append(text(MARGIN, y, said, FAINT));
            y += LINE;
        }
        for line in worth(self.plan) {
            group.append(text(MARGIN, y, line, INK));
            y += LINE;
        }
        for note in &self.plan.notes {
            group.append(text(MARGIN, y, format!("Note: {note}"), DOWN_INK));
            y += LINE;
        }
        group
    }
}

/// The appearance of a node.
struct Look {
    said: String,
    fill: &'static str,
    edge: &'static str,
    ink: &'static str,
    dashed: bool,
}

impl Look {
    fn of(switch: &SwitchRole) -> Self {
        let said = role(switch);
        match (switch.programmable, switch.aggregate) {
            (true, true) => Self { said, fill: AGGREGATES, edge: AGGREGATES, ink: "#ffffff", dashed: false },
            (true, false) => Self { said, fill: "#ffffff", edge: AGGREGATES, ink: INK, dashed: false },
            (false, _) => Self { said, fill: "#f3f4f6", edge: FAINT, ink: INK, dashed: true },
        }
    }
}

/// Shortens a name to fit its box; also returns its font size. Names are ASCII.
fn fitting(name: &str) -> (String, f64) {
    let (fits, most) = NAME;
    let shown = match name.get(..most - 1).filter(|_| name.len() > most) {
        Some(start) => format!("{start}…"),
        None => name.to_owned(),
    };
    let size = 12.0 * fits as f64 / name.len().clamp(fits, most) as f64;
    (shown, size)
}

/// Returns an arrowhead on a stroke. Its tip is at (x, y), and its base is `length` below the tip, or
/// above if `length` is negative. On a thick stroke the arrowhead is a hole; on a thin one it is wider
/// than the stroke.
fn arrow(x: f64, y: f64, length: f64, stroke: f64, color: &str) -> Path {
    let (width, fill) = if stroke < 5.0 { (stroke + 5.0, color) } else { (stroke - 1.5, "#ffffff") };
    Path::new().set("d", format!("M{x} {y}l{} {length}h{}z", width / 2.0, -width)).set("fill", fill)
}

fn rule(from: f64, to: f64, y: f64) -> Line {
    Line::new().set("x1", from).set("x2", to).set("y1", y).set("y2", y).set("stroke", "#e5e7eb")
}

fn swatch(x: f64, y: f64, fill: &str, edge: &str) -> Rectangle {
    let shape = Rectangle::new().set("x", x).set("y", y).set("width", 28).set("height", 16).set("rx", 4);
    shape.set("fill", fill).set("stroke", edge).set("stroke-width", 1.5)
}
