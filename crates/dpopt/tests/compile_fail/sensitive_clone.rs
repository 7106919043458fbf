fn main() {
    let s = dpopt::Sensitive::new(3.0_f64);
    let _ = s.clone();
}
