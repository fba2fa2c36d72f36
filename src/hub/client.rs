//! Requests to the hub: which commit a revision is, what files it has, and the bytes of one file.

use std::io::Read;
use std::time::Duration;

use hf_hub::api::sync::{ApiBuilder, ApiRepo};
use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

use super::failure::{Backoff, Failure, broken_off};
use super::listing::{Element, Listing};
use super::{Hub, Progress, Repository, cache};
use crate::error::Error;

/// More than any listing or description is long.
const LONGEST_ANSWER: u64 = 256 << 20;

/// A connection to the hub for one repository.
pub(super) struct Client<'a> {
    pub hub: &'a Hub,
    pub repository: &'a Repository,
    pub progress: &'a dyn Progress,
    agent: Agent,
    api: ApiRepo,
}

impl<'a> Client<'a> {
    pub fn new(hub: &'a Hub, repository: &'a Repository, progress: &'a dyn Progress) -> Result<Self, Failure> {
        let patience = hub.patience;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .user_agent(concat!("rtts/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.stall))
            .timeout_per_read(Some(patience.stall))
            .build()
            .new_agent();
        let api = ApiBuilder::from_cache(hf_hub::Cache::new(hub.cache.clone()))
            .with_endpoint(hub.endpoint.clone())
            .with_token(hub.token.as_ref().map(|token| token.value().to_string()))
            .with_user_agent("rtts", env!("CARGO_PKG_VERSION"))
            .build()
            .map_err(|error| Error::new(format!("cannot set up the connection to `{}`: {error}", hub.endpoint)))?;
        let names =
            hf_hub::Repo::with_revision(repository.id.clone(), hf_hub::RepoType::Model, repository.revision.clone());
        Ok(Self { hub, repository, progress, agent, api: api.repo(names) })
    }

    /// The commit that the revision means now, tried at most `tries` times.
    pub fn commit(&self, tries: u32) -> Result<String, Failure> {
        let patience = self.hub.patience;
        let bytes = self.patiently(tries, || {
            let response = self
                .api
                .info_request()
                .config()
                .http_status_as_error(false)
                .timeout_connect(Some(patience.connect))
                .timeout_recv_response(Some(patience.stall))
                .timeout_per_read(Some(patience.stall))
                .build()
                .call()?;
            whole(checked(response)?)
        })?;
        let commit = serde_json::from_slice::<serde_json::Value>(&bytes)
            .ok()
            .and_then(|info| info.get("sha")?.as_str().map(str::to_string))
            .filter(|commit| cache::is_commit(commit));
        commit.ok_or_else(|| self.not_a_hub("its description of the model names no commit"))
    }

    /// The files of `commit`.
    pub fn listing(&self, commit: &str) -> Result<Listing, Failure> {
        let address = format!("{}/api/models/{}/tree/{commit}", self.hub.endpoint, self.repository.id);
        let mut query = "recursive=true".to_string();
        let mut elements: Vec<Element> = Vec::new();
        loop {
            let (bytes, next) = self.patiently(self.hub.patience.tries, || {
                let response = self.get(&format!("{address}?{query}"), None)?;
                let next = next_page(response.headers());
                Ok((whole(response)?, next))
            })?;
            let page: Vec<Element> = serde_json::from_slice(&bytes)
                .map_err(|error| self.not_a_hub(&format!("its list of files cannot be read: {error}")))?;
            elements.extend(page);
            match next {
                Some(next) => query = next,
                None => break,
            }
        }
        Listing::from_elements(elements).map_err(|wrong| self.not_a_hub(&format!("{wrong} in its list of files")))
    }

    /// The body of `file` at `commit` from byte `from` on; the answer may begin at 0 all the same.
    pub fn body(&self, commit: &str, file: &str, from: u64) -> Result<Response<Body>, Failure> {
        let path: Vec<String> = file.split('/').map(escape).collect();
        let address = format!("{}/{}/resolve/{commit}/{}", self.hub.endpoint, self.repository.id, path.join("/"));
        self.get(&address, (from > 0).then_some(from))
    }

    fn get(&self, address: &str, from: Option<u64>) -> Result<Response<Body>, Failure> {
        // Compressed answers would have another length and another hash.
        let mut request = self.agent.get(address).header("Accept-Encoding", "identity");
        if let Some(token) = &self.hub.token {
            request = request.header("Authorization", format!("Bearer {}", token.value()));
        }
        if let Some(from) = from {
            request = request.header("Range", format!("bytes={from}-"));
        }
        checked(request.call()?)
    }

    fn patiently<T>(&self, tries: u32, act: impl Fn() -> Result<T, Failure>) -> Result<T, Failure> {
        let mut backoff = Backoff::new(self.hub, self.progress, tries);
        loop {
            match act() {
                Ok(value) => return Ok(value),
                Err(failure) => backoff.again(failure)?,
            }
        }
    }

    fn not_a_hub(&self, why: &str) -> Failure {
        let Hub { endpoint, .. } = self.hub;
        Failure::Final(
            Error::new(format!(
                "cannot open `{}`: `{endpoint}` does not answer like a model hub: {why}",
                self.repository.id
            ))
            .hint("check `HF_ENDPOINT`"),
        )
    }
}

fn checked(response: Response<Body>) -> Result<Response<Body>, Failure> {
    let code = response.status().as_u16();
    if (200..300).contains(&code) || code == 416 {
        return Ok(response);
    }
    let wait = header(response.headers(), "retry-after").and_then(|text| text.trim().parse().ok());
    Err(Failure::Status {
        code,
        reason: header(response.headers(), "x-error-code").unwrap_or_default().to_string(),
        wait: wait.map(Duration::from_secs),
    })
}

fn whole(response: Response<Body>) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let mut reader = response.into_body().into_reader().take(LONGEST_ANSWER);
    reader.read_to_end(&mut bytes).map_err(broken_off)?;
    Ok(bytes)
}

/// A header's text.
pub(super) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The query of the next page: `Link: <ADDRESS?QUERY>; rel="next"`. Only the query is taken over, so that the token
/// never goes to an address that an answer names.
fn next_page(headers: &HeaderMap) -> Option<String> {
    let link = header(headers, "link")?;
    let part = link.split(',').find(|part| part.contains("rel=\"next\""))?;
    let address = part.split_once('<')?.1.split_once('>')?.0;
    address.split_once('?').map(|(_, query)| query.to_string())
}

/// One step of a path, as an address writes it.
fn escape(step: &str) -> String {
    let mut out = String::new();
    for byte in step.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn addresses() {
        assert_eq!(escape("model-00001.safetensors"), "model-00001.safetensors");
        assert_eq!(escape("a b+ü%"), "a%20b%2B%C3%BC%25");
        let mut headers = HeaderMap::new();
        assert_eq!(next_page(&headers), None);
        headers.insert("link", "<https://other/api?recursive=true&cursor=x%3D>; rel=\"next\"".parse().unwrap());
        assert_eq!(next_page(&headers).as_deref(), Some("recursive=true&cursor=x%3D"));
    }
}
