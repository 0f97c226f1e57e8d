// attention_scores.wgsl: adds to a thread's scores what unit c of the part of k that is held gives, the queries' units at `at`.
{{@j=keys}}
        let k{{j}} = pool[c * (kColumns + 1u) + across + {{j}}u * kAcross];
{{/j}}{{@m=four}}{{@a=quads}}
        let q{{m}}_{{a}} = qs[at + {{m}}u * kQuads + {{a}}u];
{{@j=keys}}
        s{{j}}_{{a}} = fma(q{{m}}_{{a}}, vec4<f32>(k{{j}}[{{m}}]), s{{j}}_{{a}});
{{/j}}{{/a}}{{/m}}
