//! Choosing a column of a row of logits.

use std::cmp::Ordering;

use crate::compute::Choice;
use crate::compute::random::{Purpose, uniform};
use crate::error::{Error, Result};

/// One column, with the request's own random number.
pub(super) fn sample(logits: &[f32], choice: &Choice) -> Result<u32> {
    choose(logits, choice, || f64::from(uniform(choice.seed, choice.step, Purpose::Token)))
}

/// One column, by a number in [0, 1) that is asked for only where there is a choice.
fn choose(logits: &[f32], choice: &Choice, number: impl FnOnce() -> f64) -> Result<u32> {
    let logits = &logits[..choice.columns.min(logits.len())];
    if logits.is_empty() {
        return Err(super::linear::fault("a choice among no columns".to_owned()));
    }
    if logits.iter().any(|l| l.is_nan() || *l == f32::INFINITY) {
        return Err(Error::new("the model's scores are not finite").hint("the checkpoint may be damaged"));
    }
    // Descending, the lower column first among equals.
    let order = |a: &u32, b: &u32| -> Ordering { logits[*b as usize].total_cmp(&logits[*a as usize]).then(a.cmp(b)) };
    let mut columns: Vec<u32> = (0..logits.len() as u32).collect();
    // NaN counts as greedy, like 0 and less.
    if choice.temperature.partial_cmp(&0.0) != Some(Ordering::Greater) {
        return Ok(columns.into_iter().min_by(order).unwrap_or(0));
    }
    if choice.top_k > 0 && choice.top_k < columns.len() {
        columns.select_nth_unstable_by(choice.top_k - 1, order);
        columns.truncate(choice.top_k);
    }
    columns.sort_unstable_by(order);

    let temperature = f64::from(choice.temperature);
    let largest = f64::from(logits[columns[0] as usize]);
    let mut total = 0.0;
    let mut sums = Vec::with_capacity(columns.len());
    for column in &columns {
        total += ((f64::from(logits[*column as usize]) - largest) / temperature).exp();
        sums.push(total);
    }
    let target = number() * total;
    let at = sums.iter().position(|sum| *sum > target).unwrap_or(columns.len() - 1);
    Ok(columns[at])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Recorded {
        columns: usize,
        temperature: f32,
        top_k: usize,
        logits: Vec<f32>,
        uniforms: Vec<f64>,
        picked: Vec<u32>,
    }

    fn choice(columns: usize, temperature: f32, top_k: usize) -> Choice {
        Choice { columns, temperature, top_k, seed: 1, step: 0 }
    }

    #[test]
    fn the_reference_picks_the_same_columns() {
        let recorded: Recorded = serde_json::from_str(include_str!("../../../tests/data/sampling.json")).unwrap();
        let choice = choice(recorded.columns, recorded.temperature, recorded.top_k);
        assert_eq!(recorded.picked.len(), 64);
        for (number, picked) in recorded.uniforms.iter().zip(&recorded.picked) {
            assert_eq!(choose(&recorded.logits, &choice, || *number).unwrap(), *picked);
        }
    }

    #[test]
    fn ties_go_to_the_lower_column() {
        let logits = [1.0, 3.0, 2.0, 3.0, 3.0];
        assert_eq!(choose(&logits, &choice(5, 0.0, 0), || 0.0).unwrap(), 1);
        assert_eq!(choose(&logits, &choice(5, -1.0, 3), || 0.0).unwrap(), 1);
        for (number, picked) in [(0.0, 1), (0.49, 1), (0.51, 3), (0.999, 3)] {
            assert_eq!(choose(&logits, &choice(5, 0.7, 2), || number).unwrap(), picked);
        }
    }

    #[test]
    fn only_the_first_columns_count() {
        let logits = [1.0, 0.0, 9.0];
        assert_eq!(choose(&logits, &choice(2, 0.0, 0), || 0.0).unwrap(), 0);
        assert_eq!(choose(&logits, &choice(2, 1.0, 0), || 0.999_999).unwrap(), 1);
        assert!(choose(&logits, &choice(0, 1.0, 0), || 0.0).is_err());
    }

    #[test]
    fn masked_columns_are_never_drawn_and_nan_is_an_error() {
        let logits = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY];
        for number in [0.0, 0.5, 1.0 - f64::EPSILON] {
            assert_eq!(choose(&logits, &choice(3, 1.0, 0), || number).unwrap(), 1);
        }
        assert!(choose(&[0.0, f32::NAN], &choice(2, 0.0, 0), || 0.0).is_err());
        assert!(choose(&[0.0, f32::INFINITY], &choice(2, 1.0, 0), || 0.0).is_err());
    }
}
