//! Charts with two axes: lines, or bars for separate cases.

use svg::node::element::{Circle, Group, Line as Rule, Polyline};
use svg::{Document, Node};

use crate::{FAINT, INK, RULE, page, rectangle, text};

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
/// The right edge of the plot. The names of the lines are to the right of it.
const RIGHT: f64 = 620.0;
const TOP: f64 = 80.0;
const BOTTOM: f64 = 370.0;
const LABEL_STEP: f64 = 15.0;
/// The maximum number of ticks of a linear axis.
const TICKS: f64 = 7.0;
const BAR: f64 = 13.0;
const BAR_STEP: f64 = 17.0;
/// The maximum number of points of a line that is drawn with a dot at each point.
const MOST_DOTS: usize = 16;

/// A chart that compares series of values.
/// A series is a line, or a set of bars with one bar at each place.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The subject of the chart.
    pub title: String,
    /// The conditions of the measurement, shown below the title.
    pub subtitle: String,
    /// The horizontal axis.
    pub across: Axis,
    /// The vertical axis.
    pub up: Axis,
    /// The lines, in any order.
    pub lines: Vec<Line>,
    /// The bars, in their order at each place.
    pub bars: Vec<Bars>,
}

/// A line for one series.
#[derive(Debug, Clone)]
pub struct Line {
    /// The name of the series, shown at the end of the line.
    pub name: String,
    /// The colour of the line.
    pub color: &'static str,
    /// The dash pattern of the line in SVG's notation; "none" for a solid line.
    pub dashes: &'static str,
    /// The points of the line, from left to right.
    pub points: Vec<(f64, f64)>,
}

/// The bars of one series: one bar at each place.
#[derive(Debug, Clone)]
pub struct Bars {
    /// The name of the series, shown to the right of the chart.
    pub name: String,
    /// The colour of the bars.
    pub color: &'static str,
    /// The opacity of the bars, from 0 (invisible) to 1.
    pub opacity: f64,
    /// The places of the bars, with their heights.
    pub points: Vec<(f64, f64)>,
}

/// An axis: its name, its scale, and the values written on it.
#[derive(Debug, Clone)]
pub struct Axis {
    name: String,
    scale: Scale,
    ticks: Vec<(f64, String)>,
}

#[derive(Debug, Clone, Copy)]
enum Scale {
    Even {
        least: f64,
        most: f64,
    },
    /// A logarithmic scale. Its limits are exponents of ten.
    Decades {
        least: f64,
        most: f64,
    },
}

impl Axis {
    /// Makes a linear axis from `least` to `most`, with ticks at round numbers.
    /// `spoken` formats the values of ticks.
    pub fn even(name: impl Into<String>, least: f64, most: f64, spoken: impl Fn(f64) -> String) -> Self {
        // If all values are equal, the axis still needs a span, which can be any number.
        let span = if most > least { most - least } else { 1.0 };
        let power = 10f64.powf((span / TICKS).log10().floor());
        let step = [1.0, 2.0, 5.0].map(|times| times * power).into_iter().find(|step| span <= TICKS * step);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((least / step).floor(), (most / step).ceil().max((least / step).floor() + 1.0));
        let ticks = (0..=(last - first) as u32).map(|tick| step * (first + f64::from(tick)));
        Self {
            name: name.into(),
            scale: Scale::Even { least: first * step, most: last * step },
            ticks: ticks.map(|value| (value, spoken(value))).collect(),
        }
    }

    /// Makes a logarithmic axis for values above 0. Values below `least` are drawn at `least`.
    pub fn decades(name: impl Into<String>, least: f64, most: f64, spoken: impl Fn(f64) -> String) -> Self {
        let least = least.max(f64::MIN_POSITIVE).log10().floor();
        let most = most.max(f64::MIN_POSITIVE).log10().ceil().max(least + 1.0);
        let ticks = (0..=(most - least) as u32).map(|tick| 10f64.powf(least + f64::from(tick)));
        Self {
            name: name.into(),
            scale: Scale::Decades { least, most },
            ticks: ticks.map(|value| (value, spoken(value))).collect(),
        }
    }

    /// Makes an axis of places with names, side by side. Their values are 0, 1, 2 …
    pub fn places(name: impl Into<String>, places: impl IntoIterator<Item = String>) -> Self {
        let ticks = numbered(places);
        let most = ticks.len().saturating_sub(1).max(1) as f64;
        // There is a margin of 4 % on either side.
        let margin = 0.04 * most;
        Self { name: name.into(), scale: Scale::Even { least: -margin, most: most + margin }, ticks }
    }

    /// Makes an axis of places with names and with room for bars. Their values are 0, 1, 2 …
    pub fn groups(name: impl Into<String>, places: impl IntoIterator<Item = String>) -> Self {
        let ticks = numbered(places);
        let most = ticks.len().max(1) as f64 - 0.5;
        Self { name: name.into(), scale: Scale::Even { least: -0.5, most }, ticks }
    }

    /// Returns the position of a value on the axis, from 0 at one end to 1 at the other.
    fn share(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Even { least, most } => (value - least) / (most - least),
            Scale::Decades { least, most } => (value.max(10f64.powf(least)).log10() - least) / (most - least),
        };
        share.clamp(0.0, 1.0)
    }

    fn x(&self, value: f64) -> f64 {
        tenths(LEFT + (RIGHT - LEFT) * self.share(value))
    }

    fn y(&self, value: f64) -> f64 {
        tenths(BOTTOM - (BOTTOM - TOP) * self.share(value))
    }
}

/// Assigns the values 0, 1, 2 … to names.
fn numbered(places: impl IntoIterator<Item = String>) -> Vec<(f64, String)> {
    (0_u32..).map(f64::from).zip(places).collect()
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

impl Chart {
    /// Draws the chart.
    pub fn draw(&self) -> Document {
        page(WIDTH, HEIGHT, 12)
            .add(text(24.0, 32.0, self.title.clone(), INK).set("font-size", 16).set("font-weight", 600))
            .add(text(24.0, 54.0, self.subtitle.clone(), FAINT).set("font-size", 11))
            .add(self.axes())
            .add(self.drawn_bars())
            .add(self.drawn_lines())
    }

    fn axes(&self) -> Group {
        let mut group = Group::new();
        for (value, spoken) in &self.up.ticks {
            let y = self.up.y(*value);
            let line = Rule::new().set("x1", LEFT).set("x2", RIGHT).set("y1", y).set("y2", y);
            group.append(line.set("stroke", RULE));
            group.append(text(LEFT - 8.0, y + 4.0, spoken.clone(), FAINT).set("text-anchor", "end"));
        }
        for (value, spoken) in &self.across.ticks {
            let label = text(self.across.x(*value), BOTTOM + 20.0, spoken.clone(), FAINT);
            group.append(label.set("text-anchor", "middle"));
        }
        let middle = (LEFT + RIGHT) / 2.0;
        let across = text(middle, BOTTOM + 40.0, self.across.name.clone(), INK).set("text-anchor", "middle");
        group.add(across).add(text(LEFT, TOP - 8.0, self.up.name.clone(), INK).set("text-anchor", "end"))
    }

    fn drawn_bars(&self) -> Group {
        let mut group = Group::new();
        let first = -0.5 * BAR_STEP * self.bars.len() as f64;
        for (which, bars) in (0_u32..).map(f64::from).zip(&self.bars) {
            for &(place, height) in &bars.points {
                let (x, y) = (self.across.x(place) + first + which * BAR_STEP, self.up.y(height));
                group.append(rectangle(x, y, BAR, BOTTOM - y, bars.color).set("fill-opacity", bars.opacity));
            }
            let name = text(RIGHT + 10.0, TOP + LABEL_STEP * (which + 1.0), bars.name.clone(), bars.color);
            group.append(name.set("font-weight", 600).set("fill-opacity", bars.opacity));
        }
        group
    }

    fn drawn_lines(&self) -> Group {
        let mut group = Group::new();
        let mut labels = Vec::new();
        for line in &self.lines {
            let points: Vec<_> = line.points.iter().map(|&(x, y)| (self.across.x(x), self.up.y(y))).collect();
            let Some(&(_, end)) = points.last() else { continue };
            let all = points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ");
            let drawn = Polyline::new().set("points", all).set("fill", "none").set("stroke", line.color);
            group.append(drawn.set("stroke-width", 2).set("stroke-dasharray", line.dashes));
            if points.len() <= MOST_DOTS {
                for (x, y) in points {
                    group.append(Circle::new().set("cx", x).set("cy", y).set("r", 3).set("fill", line.color));
                }
            }
            labels.push((end, line));
        }
        // If lines end close to one another, their names are moved down, and moved up again at the bottom of the chart.
        labels.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut places: Vec<f64> = labels.iter().map(|(end, _)| end + 4.0).collect();
        let mut free = TOP - LABEL_STEP;
        for place in &mut places {
            *place = place.max(free);
            free = *place + LABEL_STEP;
        }
        let mut free = BOTTOM + 4.0;
        for place in places.iter_mut().rev() {
            *place = place.min(free);
            free = *place - LABEL_STEP;
        }
        for ((_, line), y) in labels.into_iter().zip(places) {
            let name = text(RIGHT + 10.0, tenths(y), line.name.clone(), line.color);
            group.append(name.set("font-weight", 600));
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(up: Axis, points: &[(f64, f64)]) -> String {
        let across = Axis::places("size", ["small", "large"].map(str::to_owned));
        let line = Line { name: "a < b".into(), color: INK, dashes: "none", points: points.to_vec() };
        Chart { title: "T".into(), subtitle: "S".into(), across, up, lines: vec![line], bars: Vec::new() }
            .draw()
            .to_string()
    }

    #[test]
    fn a_chart_has_its_names_its_ticks_and_its_points() {
        let up = Axis::even("seconds", 0.0, 3.7, |value| format!("{value} s"));
        let drawn = chart(up, &[(0.0, 0.0), (1.0, 4.0)]);
        for word in ["small", "large", "size", "a &lt; b", "0 s", "1 s", "4 s", "cy=\"370\"", "cy=\"80\""] {
            assert!(drawn.contains(word), "{word:?} is not in: {drawn}");
        }
        assert!(!drawn.contains("5 s"));
    }

    #[test]
    fn names_of_lines_that_end_together_are_apart_and_above_the_bottom() {
        let line =
            |name: &str| Line { name: name.into(), color: INK, dashes: "none", points: vec![(0.0, 0.0)] };
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            across: Axis::places("", ["here".to_owned()]),
            up: Axis::even("", 0.0, 1.0, |value| value.to_string()),
            lines: ["a", "b", "c"].map(line).to_vec(),
            bars: Vec::new(),
        };
        let drawn = chart.draw().to_string();
        for y in ["y=\"374\"", "y=\"359\"", "y=\"344\""] {
            assert!(drawn.contains(y), "{y} is not in: {drawn}");
        }
    }

    #[test]
    fn bars_stand_side_by_side_on_the_axis() {
        let bars = |name: &str, height| Bars {
            name: name.into(),
            color: INK,
            opacity: 0.5,
            points: vec![(0.0, height)],
        };
        let chart = Chart {
            title: String::new(),
            subtitle: String::new(),
            across: Axis::groups("", ["here".to_owned()]),
            up: Axis::even("", 0.0, 2.0, |value| value.to_string()),
            lines: Vec::new(),
            bars: vec![bars("one", 1.0), bars("two", 2.0)],
        };
        let drawn = chart.draw().to_string();
        for word in ["height=\"145\"", "height=\"290\"", "x=\"328\"", "x=\"345\"", "two"] {
            assert!(drawn.contains(word), "{word:?} is not in: {drawn}");
        }
    }

    #[test]
    fn decades_draw_what_is_too_small_at_their_end() {
        let up = Axis::decades("", 2.0, 30.0, |value| value.to_string());
        assert_eq!(
            [up.y(0.0), up.y(1.0), up.y(10.0), up.y(100.0), up.y(1e9)],
            [370.0, 370.0, 225.0, 80.0, 80.0]
        );
    }

    #[test]
    fn an_axis_of_one_value_is_one() {
        let up = Axis::even("", 5.0, 5.0, |value| value.to_string());
        assert!(up.y(5.0).is_finite());
    }
}
