// conv_matrix_load.wgsl: what this lane will stage of plane d, read from in{{b}}. Quads that are not there stay zero.
{{@i=stage_steps}}
{{@o=octs}}
          v{{i}}_{{o}} = vec4<u32>(0u);
{{/o}}
          if (ok{{i}}) {
            let at = u32(d * kStrideIn + h{{i}} * kWidth + w{{i}}) + P.in{{b}}_at;
            let quad = part * ({{octs}}u * 2u) - {{quads_before}}u;
{{@o=octs}}
            if (quad + {{o}}u * 2u < {{quads}}u) {
              v{{i}}_{{o}} = vec4<u32>(in{{b}}[at + (quad + {{o}}u * 2u) * kPlaneIn], 0u, 0u);
            }
            if (quad + {{o}}u * 2u + 1u < {{quads}}u) {
              v{{i}}_{{o}} = vec4<u32>(v{{i}}_{{o}}.xy, in{{b}}[at + (quad + {{o}}u * 2u + 1u) * kPlaneIn]);
            }
{{/o}}
          }
{{/i}}
