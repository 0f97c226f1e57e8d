// conv_matrix_stage.wgsl: what was loaded goes into workgroup memory, once all lanes are done with what is there.
          workgroupBarrier();
{{@i=stage_steps}}
          if (e{{i}} < kStaged) {
{{@o=octs}}
            stage[e{{i}} * {{octs}}u + {{o}}u] = v{{i}}_{{o}};
{{/o}}
          }
{{/i}}
          workgroupBarrier();
