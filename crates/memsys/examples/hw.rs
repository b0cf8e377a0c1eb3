use ample_memsys::experiments::*;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let t = std::time::Instant::now();
    if a[1] == "u" {
        let p = unavailable::Params {
            remote_tlbs: vec![1, 3, 7, 15, 31, 63],
            migrations: 4,
            ..Default::default()
        };
        println!(
            "{}",
            serde_json::to_string_pretty(&unavailable::run(&p).unwrap()).unwrap()
        );
    } else {
        let p = traffic::Params {
            rates_per_s: a[2].split(',').map(|x| x.parse().unwrap()).collect(),
            simulated_ms: a[3].parse().unwrap(),
            seeds: (1..=a[4].parse().unwrap()).collect(),
            ..Default::default()
        };
        let r = traffic::run(&p).unwrap();
        for q in &r.points {
            println!("{q:?}");
        }
        println!(
            "{} M instr, {:.1} M/s",
            r.instructions / 1_000_000,
            r.instructions as f64 / 1e6 / t.elapsed().as_secs_f64()
        );
    }
    eprintln!("{:?}", t.elapsed());
}
