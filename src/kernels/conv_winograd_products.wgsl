// conv_winograd_products.wgsl: part of conv_winograd; the products of {{lanes}} channels of quad q, point by point.
{{@p=5}}{{@l=lanes}}{{@k=o}}
          let w{{p}}_{{l}}_{{k}} = cut{{k}}(stage[first_staged + q - q0].w[({{p}} * 4 + {{l}}) * {{o}} + {{k}}]);
{{@t=tiles}}
          m{{t}}_{{p}}_{{k}} = fma(Acc{{k}}(t{{t}}_{{p}}[{{l}}]), w{{p}}_{{l}}_{{k}}, m{{t}}_{{p}}_{{k}});
{{/t}}{{/k}}{{/l}}{{/p}}
{{@l=lanes}}{{@k=o}}
{{#uniform}}
          let w5_{{l}}_{{k}} = cut{{k}}(last_point[first_row + (q - q0) * kGroups].w[{{l}} * {{o}} + {{k}}]);
{{/uniform}}{{^uniform}}
          let w5_{{l}}_{{k}} = cut{{k}}(stage[first_staged + q - q0].w[(20 + {{l}}) * {{o}} + {{k}}]);
{{/uniform}}
{{@t=tiles}}
          m{{t}}_5_{{k}} = fma(Acc{{k}}(t{{t}}_5[{{l}}]), w5_{{l}}_{{k}}, m{{t}}_5_{{k}});
{{/t}}{{/k}}{{/l}}
