//! The model cache, the hub, and the model that a run without flags would speak with.

use super::{Check, State, shown};
use crate::builtin;
use crate::checkpoint::{Checkpoint, Source};
use crate::cli::info::bytes;
use crate::cli::settings::Settings;
use crate::error::Result;
use crate::hub::{self, Hub, Missing, Name, Progress};

/// A packed model of the larger kind.
const ONE_MODEL: u64 = 3_500_000_000;

pub fn look(hub: &Hub, settings: Option<&Settings>, progress: &dyn Progress) -> Vec<Check> {
    let mut checks = vec![cache(hub)];
    checks.extend(held(hub));
    checks.push(reach(hub));
    checks.push(default(hub, settings, progress));
    checks
}

fn cache(hub: &Hub) -> Check {
    let place = shown(&hub.cache);
    let elsewhere = "set `HF_HOME` or `HF_HUB_CACHE` to another folder";
    let free = hub::free(&hub.cache);
    let room = free.map_or_else(String::new, |free| format!(", {} free", bytes(free)));
    match hub::writable(&hub.cache) {
        // Models that are there can be spoken with all the same.
        Err(cause) => Check::note("cache", format!("`{place}` cannot be written: {cause}"))
            .cure(format!("to download, {elsewhere}")),
        Ok(()) if free.is_some_and(|free| free < ONE_MODEL) => Check::note("cache", format!("`{place}`{room}"))
            .cure(format!("a model takes up to {}: make room (`rtts models rm`), or {elsewhere}", bytes(ONE_MODEL))),
        Ok(()) => Check::ok("cache", format!("`{place}`{room}")),
    }
}

/// A line for all whole models, and one for each that is not.
fn held(hub: &Hub) -> Vec<Check> {
    let models = match hub::list(hub) {
        Ok(models) => models,
        Err(error) => return vec![Check::of("models", State::Note, &error)],
    };
    let speech: Vec<_> = models.into_iter().filter(|cached| cached.speech).collect();
    let (whole, broken): (Vec<_>, Vec<_>) = speech.into_iter().partition(|cached| cached.missing.is_empty());
    let names: Vec<String> = whole.iter().map(|cached| format!("`{}` ({})", cached.id, bytes(cached.bytes))).collect();
    let mut checks = vec![match names.as_slice() {
        [] => Check::ok("models", "none but the built-in voice"),
        some => Check::ok("models", some.join(", ")),
    }];
    checks.extend(broken.iter().map(|cached| {
        let lacking: Vec<String> = cached.missing.iter().map(Missing::to_string).collect();
        Check::note("models", format!("`{}` lacks {}", cached.id, lacking.join(", ")))
            .cure(format!("run `rtts models pull {}`", cached.id))
    }));
    checks
}

fn reach(hub: &Hub) -> Check {
    let token = match &hub.token {
        Some(token) => format!("; a token from {}", token.origin()),
        None => "; no token".to_owned(),
    };
    let endpoint = super::configuration::without_password(&hub.endpoint);
    if hub.offline {
        return Check::ok("hub", format!("`{endpoint}` not asked: offline{token}"));
    }
    match hub::reach(hub) {
        Ok(time) => Check::ok("hub", format!("`{endpoint}` answers in {} ms{token}", time.as_millis())),
        Err(why) => Check::note("hub", format!("`{endpoint}` cannot be reached: {why}{token}")).cure(
            "models in the cache work without it: `--offline`; else see to the network, a proxy, or `HF_ENDPOINT`",
        ),
    }
}

fn default(hub: &Hub, settings: Option<&Settings>, progress: &dyn Progress) -> Check {
    let configured = settings.and_then(|settings| settings.model.clone());
    let how = match &configured {
        Some(_) => "configured",
        None => "chosen by itself",
    };
    let name = configured.or_else(|| hub::last_pulled(hub)).unwrap_or_else(|| builtin::NAME.to_owned());
    match source(&name, hub, progress) {
        Ok(Some(source)) => match Checkpoint::open(source) {
            Ok(checkpoint) => {
                Check::ok("model", format!("`{name}`, {how}: {}, {}", checkpoint.layout(), checkpoint.packing()))
            }
            Err(error) => Check::of("model", State::Problem, &error),
        },
        Ok(None) => Check::note("model", format!("`{name}`, {how}, is not here yet: the first run fetches it"))
            .cure(format!("run `rtts models pull {name}`")),
        Err(error) => Check::of("model", State::Problem, &error),
    }
}

/// The files of a model, without a download; `None` where one would be needed and can be had.
fn source(name: &str, hub: &Hub, progress: &dyn Progress) -> Result<Option<Source>> {
    if name == builtin::NAME {
        return Ok(Some(builtin::source()));
    }
    let here = match Name::parse(name, hub)? {
        Name::Folder(_) => true,
        Name::Repository(repository) => hub::find(&repository, hub).is_some_and(|cached| cached.missing.is_empty()),
    };
    if !here && !hub.offline {
        return Ok(None);
    }
    let hub = Hub { offline: true, ..hub.clone() };
    hub::resolve(name, &hub, progress).map(|folder| Some(Source::Folder(folder)))
}
