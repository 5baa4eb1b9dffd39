import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.AccessChannel;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.trace.TraceBean;
import org.apache.rocketmq.client.trace.TraceContext;
import org.apache.rocketmq.client.trace.TraceDataEncoder;
import org.apache.rocketmq.client.trace.TraceType;
import org.apache.rocketmq.common.message.MessageType;

/** What Apache's encoder makes of a few traces, one a line; 0x01 and 0x02 are written as | and ~. */
public class TraceJudge {
    public static void main(String[] arguments) {
        for (boolean bare : new boolean[] {false, true}) {
            for (TraceType type : new TraceType[] {
                TraceType.Pub, TraceType.SubBefore, TraceType.SubAfter, TraceType.EndTransaction}) {
                TraceBean bean = new TraceBean();
                bean.setTopic("Orders");
                bean.setMsgId("AC1100017A2B18B4AAC20000000000AB");
                bean.setTags(bare ? null : "paid");
                bean.setKeys(bare ? null : "order-42 customer-7");
                bean.setStoreHost("10.0.0.1:10911");
                bean.setBodyLength(1234);
                bean.setRetryTimes(bare ? 0 : 3);
                bean.setOffsetMsgId("0A00000100002A9F0000000000000457");
                bean.setMsgType(type == TraceType.EndTransaction ? MessageType.Trans_msg_Commit
                    : bare ? MessageType.Normal_Msg : MessageType.Delay_Msg);
                bean.setTransactionId(bare ? null : "TX-1");
                bean.setTransactionState(bare ? LocalTransactionState.UNKNOW : LocalTransactionState.ROLLBACK_MESSAGE);
                bean.setFromTransactionCheck(!bare);
                TraceContext context = new TraceContext();
                context.setTraceType(type);
                context.setTimeStamp(1700000000123L);
                context.setRegionId(bare && type == TraceType.SubBefore ? null : "DefaultRegion");
                context.setGroupName("billing");
                context.setCostTime(17);
                context.setSuccess(bare);
                context.setRequestId("AC1100017A2B18B4AAC20000000000CD");
                context.setContextCode(bare ? 0 : 2);
                context.setAccessChannel(AccessChannel.LOCAL);
                List<TraceBean> beans = new ArrayList<>();
                beans.add(bean);
                context.setTraceBeans(beans);
                String text = TraceDataEncoder.encoderFromContextBean(context).getTransData();
                System.out.println("= " + text.replace((char) 1, '|').replace((char) 2, '~'));
            }
        }
    }
}
