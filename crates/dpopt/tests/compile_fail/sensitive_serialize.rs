fn main() {
    let s = dpopt::Sensitive::new(3.0_f64);
    fn json<T: serde::Serialize>(_: &T) {} json(&s);
}
