//! Pages of audits of this library's own code, by date and hash.

/// One published run of the self-audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Audit {
    /// Page in the source repository.
    pub page: &'static str,
    /// BLAKE3 of the page, in hex.
    pub blake3: &'static str,
    /// Commit of the source repository with which the page came.
    pub commit: &'static str,
    /// What the page says it found.
    pub result: &'static str,
}

/// The runs, oldest first.
pub const AUDITS: [Audit; 3] = [
    Audit {
        page: "docs/audits/2026-11-23.md",
        blake3: "e74d24cf10e4ef391e85eab7fd623baf34db657c939980c86b58d6d23933f75f",
        commit: "5d26bb91",
        result: "shortfalls 1, caught 122 of 123, violations 0",
    },
    Audit {
        page: "docs/audits/2026-11-24.md",
        blake3: "372aa4204ee57cdbca0905e709ca67042085811174046ea304744c3dade1c497",
        commit: "61fedc00",
        result: "shortfalls 0, caught 5 of 5, violations 0",
    },
    Audit {
        page: "docs/audits/2026-11-30.md",
        blake3: "beae10d1f5eb39039055a2aa84cc4036605e0fe8163024b82935d3bfd5a2934a",
        commit: "583dca81",
        result: "shortfalls 1, caught 198 of 198, violations 0",
    },
];
