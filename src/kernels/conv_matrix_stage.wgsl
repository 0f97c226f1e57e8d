          workgroupBarrier();
{{@i=stage_steps}}
          if (e{{i}} < kStaged) {
{{@o=octs}}
            stage[e{{i}} * {{octs}}u + {{o}}u] = v{{i}}_{{o}};
{{/o}}
          }
{{/i}}
          workgroupBarrier();
