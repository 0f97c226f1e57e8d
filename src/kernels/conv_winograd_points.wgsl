// conv_winograd_points.wgsl: part of conv_winograd; t0_0 …, quad q of the rows of the input at the six points of each run.
          let at = u32(base) + q * kPlaneIn;
          var first = {{raw}}();
          if (first_ok) {
            first = in{{b}}[at + P.in{{b}}_at];
          }
{{@r=voxels}}
{{#exact}}
          let inner{{r}} = in{{b}}[at + P.in{{b}}_at + ({{r}}u + 1u) * kRowStep];
{{/exact}}{{^exact}}
          var inner{{r}} = {{raw}}();
          if (ok{{r}}) {
            inner{{r}} = in{{b}}[at + P.in{{b}}_at + ({{r}}u + 1u) * kRowStep];
          }
{{/exact}}
{{/r}}
          var last = {{raw}}();
          if (last_ok) {
            last = in{{b}}[at + P.in{{b}}_at + ({{voxels}}u + 1u) * kRowStep];
          }
{{unpack}}
{{@t=tiles}}
          let e{{t}}_0 = fma(vec4<f32>(-4.0), v{{t}}_2, v{{t}}_4);
          let e{{t}}_1 = fma(vec4<f32>(-4.0), v{{t}}_1, v{{t}}_3);
          let e{{t}}_2 = v{{t}}_4 - v{{t}}_2;
          let e{{t}}_3 = v{{t}}_3 - v{{t}}_1;
          let t{{t}}_0 = fma(vec4<f32>(4.0), v{{t}}_0, fma(vec4<f32>(-5.0), v{{t}}_2, v{{t}}_4));
          let t{{t}}_1 = e{{t}}_0 + e{{t}}_1;
          let t{{t}}_2 = e{{t}}_0 - e{{t}}_1;
          let t{{t}}_3 = fma(vec4<f32>(2.0), e{{t}}_3, e{{t}}_2);
          let t{{t}}_4 = fma(vec4<f32>(-2.0), e{{t}}_3, e{{t}}_2);
          let t{{t}}_5 = fma(vec4<f32>(4.0), v{{t}}_1, fma(vec4<f32>(-5.0), v{{t}}_3, v{{t}}_5));
{{/t}}
