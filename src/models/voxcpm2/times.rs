//! When the solver looks at the velocity: N Euler steps from t = 1 to 0 that grow towards the end, the first of which
//! take no velocity at all (CFG-Zero*).
//!
//! Every number is rounded to f32 where the official program run in f32 rounds it. (Run in bf16 it
//! rounds to bf16 there, which moves the times by up to half a percent.)

/// The fewest and most steps of a solver: one step alone would leave pure noise.
pub const STEPS: std::ops::RangeInclusive<usize> = 2..=100;
/// How strongly steps grow towards the end.
const SWAY: f32 = 1.0;
/// The share of the points in time that take no velocity.
const ZERO: f64 = 0.04;

/// One step that looks at the velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    /// When.
    pub t: f32,
    /// How far the step goes from there.
    pub dt: f32,
}

/// The steps that look at the velocity, of `steps` in all; the ones before change nothing but the time.
pub fn times(steps: usize) -> Vec<Time> {
    let points = spread(steps);
    let skipped = ((points.len() as f64 * ZERO) as usize).max(1);
    let mut t = points[0];
    let mut dt = points[0] - points[1];
    let mut times = Vec::with_capacity(steps);
    for step in 1..points.len() {
        if step > skipped {
            times.push(Time { t, dt });
        }
        t -= dt;
        if let Some(next) = points.get(step + 1) {
            dt = t - next;
        }
    }
    times
}

/// `steps + 1` points from 1 to 0.
fn spread(steps: usize) -> Vec<f32> {
    let step = -1.0 / steps as f32;
    let even = |i: usize| if i < steps.div_ceil(2) { 1.0 + step * i as f32 } else { -step * (steps - i) as f32 };
    let swayed = |even: f32| {
        let turn = std::f32::consts::FRAC_PI_2 * even;
        even + SWAY * (f64::from(turn).cos() as f32 - 1.0 + even)
    };
    (0..=steps).map(|i| swayed(even(i))).collect()
}

/// A time as a vector: `width / 2` sines, then as many cosines, of falling frequency.
pub fn embedding(t: f32, width: usize) -> Vec<f32> {
    let half = width / 2;
    let fall = -(1e4f64.ln() / (half - 1) as f64) as f32;
    let angle = |j: usize| {
        let frequency = f64::from(j as f32 * fall).exp() as f32;
        f64::from(1000.0 * t * frequency)
    };
    (0..half).map(|j| angle(j).sin() as f32).chain((0..half).map(|j| angle(j).cos() as f32)).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn ten_steps_are_the_specifications() {
        // Specification 2.8; the first of the ten takes no velocity.
        let t = [
            0.956_434,
            0.909_017,
            0.853_990,
            0.787_785,
            std::f32::consts::FRAC_1_SQRT_2,
            0.609_017,
            0.491_007,
            0.351_057,
            0.187_688,
        ];
        let dt = [0.047_417, 0.055_026, 0.066_205, 0.080_678, 0.098_090, 0.118_010, 0.139_950, 0.163_368, 0.187_688];
        let times = times(10);
        assert_eq!(times.len(), 9);
        for ((time, t), dt) in times.iter().zip(t).zip(dt) {
            assert!((time.t - t).abs() < 1e-6 && (time.dt - dt).abs() < 1e-6, "{time:?}, not {t} and {dt}");
        }
    }

    #[test]
    fn every_number_of_steps_ends_at_zero() {
        for steps in STEPS {
            let times = times(steps);
            let skipped = ((steps + 1) * 4 / 100).max(1);
            assert_eq!(times.len(), steps - skipped, "{steps} steps");
            let last = times.last().unwrap();
            assert!((last.t - last.dt).abs() < 1e-6 && times.iter().all(|time| time.dt > 0.0), "{steps} steps");
        }
    }
}
