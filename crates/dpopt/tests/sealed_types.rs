//! What must not compile: reading, printing, comparing, serialising or cloning sensitive values; foreign mechanisms.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_fail/*.rs");
}
