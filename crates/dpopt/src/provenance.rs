//! Which build of this library made an answer, and on what processor.

use serde::{Deserialize, Serialize};
use std::fmt::{self, Display, Formatter};

/// The build that made an answer, for whoever has to make it again or to tell faulty builds from sound ones. Public: it depends on no record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provenance {
    /// Version of the library, for example `0.1.0`.
    pub version: String,
    /// Commit of the sources, as the recipe of a release names it in `DPOPT_COMMIT`; builds from a working tree have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Build features of the crate `dpopt` that were on.
    pub features: Vec<String>,
    /// Architecture and operating system, for example `x86_64-linux`.
    pub target: String,
    /// Those features of the processor by which numerical code chooses its instructions: last bits of an answer may depend on them.
    pub cpu: Vec<String>,
}

impl Provenance {
    /// The build that runs, on the processor that runs it.
    pub fn of_this_build() -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").into(),
            // a build script that asks git would compile this crate anew after every commit
            commit: option_env!("DPOPT_COMMIT").filter(|commit| !commit.is_empty()).map(String::from),
            // the crate has none yet
            features: Vec::new(),
            target: format!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
            cpu: processor_features().into_iter().map(String::from).collect(),
        }
    }

    /// The build in five lines, for people.
    pub fn in_lines(&self) -> String {
        format!(
            "{}\ncommit     {}\nfeatures   {}\ntarget     {}\nprocessor  {}",
            self.version,
            self.commit.as_deref().unwrap_or("none: a development build"),
            listed(&self.features),
            self.target,
            listed(&self.cpu)
        )
    }
}

/// What dense products, transforms and clipped sums look at before they choose their instructions.
fn processor_features() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        ("sse4.1", is_x86_feature_detected!("sse4.1")),
        ("avx", is_x86_feature_detected!("avx")),
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
    ];
    #[cfg(target_arch = "aarch64")]
    let found = [("neon", std::arch::is_aarch64_feature_detected!("neon"))];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let found: [(&str, bool); 0] = [];
    found.into_iter().filter(|(_, there)| *there).map(|(name, _)| name).collect()
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".into() } else { names.join(" ") }
}

/// `dpopt 0.1.0 (development build, x86_64-linux, processor with sse4.1 avx avx2 fma)`: one line, as reports end.
impl Display for Provenance {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "dpopt {} (", self.version)?;
        match &self.commit {
            Some(commit) => write!(f, "commit {commit}")?,
            None => f.write_str("development build")?,
        }
        if !self.features.is_empty() {
            write!(f, ", features {}", self.features.join(" "))?;
        }
        write!(f, ", {}", self.target)?;
        if !self.cpu.is_empty() {
            write!(f, ", processor with {}", self.cpu.join(" "))?;
        }
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_says_what_it_is() {
        let build = Provenance::of_this_build();
        assert_eq!(build, Provenance::of_this_build());
        assert_eq!(build.version, env!("CARGO_PKG_VERSION"));
        assert!(build.target.starts_with(std::env::consts::ARCH) && build.target.ends_with(std::env::consts::OS));
        let copy: Provenance = serde_json::from_str(&serde_json::to_string(&build).unwrap()).unwrap();
        assert_eq!(copy, build);
    }

    #[test]
    fn a_release_and_a_development_build_in_words() {
        let mut build = Provenance {
            version: "0.1.0".into(),
            commit: None,
            features: Vec::new(),
            target: "x86_64-linux".into(),
            cpu: vec!["avx2".into(), "fma".into()],
        };
        assert_eq!(build.to_string(), "dpopt 0.1.0 (development build, x86_64-linux, processor with avx2 fma)");
        assert!(!serde_json::to_string(&build).unwrap().contains("commit"));
        (build.commit, build.features, build.cpu) = (Some("1a2b3c".into()), vec!["fast".into()], Vec::new());
        assert_eq!(build.to_string(), "dpopt 0.1.0 (commit 1a2b3c, features fast, x86_64-linux)");
        assert_eq!(
            build.in_lines(),
            "0.1.0\ncommit     1a2b3c\nfeatures   fast\ntarget     x86_64-linux\nprocessor  none"
        );
    }

    /// Where the crate gets features, [`Provenance::of_this_build`] has to name them.
    #[test]
    fn the_crate_has_no_features() {
        assert!(!include_str!("../Cargo.toml").contains("[features]"));
    }
}
