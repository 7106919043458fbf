fn main() {
    let s = dpopt::Sensitive::new(3.0_f64);
    let _: f64 = dpopt::Sensitive::into_inner(s);
}
