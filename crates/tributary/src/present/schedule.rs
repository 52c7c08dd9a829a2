//! Draws the profile of a backward pass and its time points: a mark for each gradient, a band for each
//! set.

use bytesize::ByteSize;
use svg::node::element::{Circle, Group};
use svg::{Document, Node};
use tributary_api::{schedule, v1};

use tributary_picture::{FAINT, INK, OTHERS_LIGHT, OURS, RULE, page, rectangle, text, vertical};

const WIDTH: f64 = 940.0;
const HEIGHT: f64 = 420.0;
/// The edges of the plotting area.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 900.0;
const TOP: f64 = 110.0;
const BOTTOM: f64 = 370.0;
const MARK: f64 = 3.0;
/// The number of ticks on the time axis.
const TICKS: u32 = 8;

/// Draws the times at which gradients were ready, and at which their sets are sent.
pub fn picture(told: &v1::GetScheduleResponse) -> Document {
    let (schedule, profile) = parts(told);
    let field = Field::of(&profile);
    let mut drawing = page(WIDTH, HEIGHT, 13).add(title(told, &schedule, &profile)).add(field.times());
    for (number, set) in schedule.sets.iter().enumerate() {
        drawing.append(field.set(number + 1, set, &profile));
    }
    drawing
}

/// Returns the schedule and the profile; both are empty if the controller has none.
pub(crate) fn parts(told: &v1::GetScheduleResponse) -> (schedule::Schedule, schedule::Profile) {
    (told.schedule.clone().unwrap_or_default(), told.profile.clone().unwrap_or_default())
}

fn title(
    told: &v1::GetScheduleResponse,
    schedule: &schedule::Schedule,
    profile: &schedule::Profile,
) -> Group {
    let what =
        format!("Job {}: {} gradients leave in {} sets", told.job, profile.bytes.len(), schedule.sets.len());
    let how = "Points: gradients, at the time when the slowest rank had them. Lines: time points, at which all \
               gradients of a set are ready.";
    Group::new()
        .add(text(24.0, 36.0, what, INK).set("font-size", 19).set("font-weight", 600))
        .add(text(24.0, 60.0, how, FAINT))
}

/// The plotting area. Time runs to the right, and gradients are listed downwards in the order of the
/// model.
struct Field {
    /// Duration of the whole pass, in nanoseconds.
    span: f64,
    gradients: f64,
}

impl Field {
    fn of(profile: &schedule::Profile) -> Self {
        let span = profile.ready_nanoseconds.iter().copied().max().unwrap_or_default();
        Self { span: (span as f64).max(1.0), gradients: (profile.bytes.len() as f64).max(1.0) }
    }

    fn x(&self, nanoseconds: u64) -> f64 {
        LEFT + nanoseconds as f64 / self.span * (RIGHT - LEFT)
    }

    fn y(&self, place: u32) -> f64 {
        TOP + (f64::from(place) + 0.5) / self.gradients * (BOTTOM - TOP)
    }

    fn times(&self) -> Group {
        (0..=TICKS).fold(Group::new(), |group, tick| {
            let at = self.span * f64::from(tick) / f64::from(TICKS);
            let x = self.x(at as u64);
            let label = text(x, BOTTOM + 22.0, format!("{:.0} ms", at / 1e6), FAINT);
            group.add(vertical(x, TOP, BOTTOM, RULE)).add(label.set("text-anchor", "middle"))
        })
    }

    fn set(&self, number: usize, set: &schedule::Set, profile: &schedule::Profile) -> Group {
        let ready = |place: &u32| profile.ready_nanoseconds.get(*place as usize).copied();
        let first = set.gradients.iter().filter_map(ready).min().unwrap_or_default();
        let (from, to) = (self.x(first) - MARK, self.x(set.at_nanoseconds));
        let mut group = Group::new().add(rectangle(from, TOP, to - from, BOTTOM - TOP, OTHERS_LIGHT));
        group.append(vertical(to, TOP - 6.0, BOTTOM, OURS).set("stroke-width", 2));
        let label = format!("{number}: {}", ByteSize(set.bytes));
        // Labels of neighbouring sets are on different lines.
        let base = if number % 2 == 1 { TOP - 12.0 } else { TOP - 26.0 };
        group.append(text(to, base, label, INK).set("font-size", 11).set("text-anchor", "middle"));
        for place in &set.gradients {
            let at = ready(place).unwrap_or_default();
            let mark = Circle::new().set("cx", self.x(at)).set("cy", self.y(*place)).set("r", MARK);
            group.append(mark.set("fill", OURS));
        }
        group
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gradient_and_every_set_is_in_it() {
        let profile = schedule::Profile {
            bytes: vec![4; 3],
            ready_nanoseconds: vec![9_000_000, 1_000_000, 0],
            start_up_nanoseconds: 2_000_000,
        };
        let set = |gradients: &[u32], at_nanoseconds| schedule::Set {
            gradients: gradients.to_vec(),
            bytes: 4 * gradients.len() as u64,
            at_nanoseconds,
            late_nanoseconds: u64::MAX,
        };
        let schedule =
            schedule::Schedule { version: 1, sets: vec![set(&[2, 1], 1_000_000), set(&[0], 9_000_000)] };
        let told = v1::GetScheduleResponse {
            job: "digits".into(),
            schedule: Some(schedule),
            profile: Some(profile),
            ..Default::default()
        };
        let drawn = picture(&told).to_string();
        assert_eq!(drawn.matches("<circle").count(), 3);
        for words in ["Job digits: 3 gradients leave in 2 sets", "1: 8 B", "2: 4 B", "9 ms"] {
            assert!(drawn.contains(words), "{words:?} is not in {drawn}");
        }
        assert!(!picture(&v1::GetScheduleResponse::default()).to_string().contains("NaN"));
    }
}
